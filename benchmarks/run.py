"""Run every benchmark in turn: `python -m benchmarks.run`."""

import importlib

BENCHMARKS = ("recommender_env", "control", "lookup", "lookup_batch", "lookup_growth")


def main() -> None:
    for name in BENCHMARKS:
        print(f"== {name}")
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
