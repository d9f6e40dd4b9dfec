"""How well the agent learns, and from which settings; `python -m benchmarks.learning`."""
