"""Training steps, acting and re-ranking against the clock; `python -m benchmarks.speed`."""
