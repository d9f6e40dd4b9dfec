"""Run every benchmark in turn, then say which targets of speed hold: `python -m benchmarks.run`."""

import importlib

from benchmarks import speed_verdict

BENCHMARKS = ("import_time", "recommender_env", "control", "lookup", "lookup_batch", "lookup_growth", "speed")


def main() -> None:
    for name in BENCHMARKS:
        print(f"== {name}")
        # What is committed was measured on another machine, or by other code; lookups take hours and keep theirs.
        importlib.import_module(f"benchmarks.{name}").main(*([["--again"]] if name == "speed" else []))
    speed_verdict.main()


if __name__ == "__main__":
    main()
