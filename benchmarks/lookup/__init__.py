"""Nearest-neighbour lookup: recall against time, beside other libraries; `python -m benchmarks.lookup`."""
