"""Run every benchmark in turn, then say which targets of speed hold: `python -m benchmarks.run`."""

from benchmarks import checkpoints, import_time
from benchmarks.lookup import __main__ as lookup
from benchmarks.lookup import batch, growth
from benchmarks.speed import __main__ as speed
from benchmarks.speed import control, recommender_env, verdict


def main() -> None:
    for module in (import_time, checkpoints, recommender_env, control, lookup, batch, growth, speed):
        print(f"== {module.__name__.removesuffix('.__main__')}")
        # What is committed was measured on another machine, or by other code; lookups take hours and keep theirs.
        if code := module.main(["--again"]) if module is speed else module.main():
            raise SystemExit(code)  # which has said why
    verdict.main()


if __name__ == "__main__":
    main()
