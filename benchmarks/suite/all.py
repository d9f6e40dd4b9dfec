"""Every run of the suite that has no result file yet: `python -m benchmarks.suite.all --jobs 2`.

Class defaults and rivals take the same steps; a rival that needs fewer processor seconds for them is then given as many
steps as fill the seconds of the class defaults (label `NAME-seconds`). It may be stopped and started again at any time.
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from benchmarks.suite.results import OURS, RIVALS, processor_seconds, read_runs
from benchmarks.suite.tasks import TASKS, find_task

FASTER = 0.9  # of our seconds: a rival that takes less is run for longer as well


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite.all", description=__doc__)
    parser.add_argument("tasks", nargs="*", default=list(TASKS), metavar="TASK")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on one core (default: 1)")
    parser.add_argument("--agents", nargs="+", help="only these (default: wolpertinger and the task's rivals)")
    args = parser.parse_args()
    with ThreadPoolExecutor(args.jobs) as pool:
        for task in args.tasks:
            agents = [name for name in ("wolpertinger", *RIVALS[task]) if not args.agents or name in args.agents]
            _run_all(pool, [[task, *_by_steps(name, seed)] for seed in range(args.seeds) for name in agents])
            longer = {name: steps for name in agents if name in RIVALS[task] and (steps := _longer(task, name))}
            jobs = [[task, *_by_seconds(*pair, seed)] for seed in range(args.seeds) for pair in longer.items()]
            _run_all(pool, jobs)


def _by_steps(agent: str, seed: int) -> list[str]:
    return ["--agent", agent, "--label", OURS if agent == "wolpertinger" else agent, "--seed", str(seed)]


def _by_seconds(agent: str, steps: int, seed: int) -> list[str]:
    return ["--agent", agent, "--label", f"{agent}-seconds", "--steps", str(steps), "--seed", str(seed)]


def _run_all(pool: ThreadPoolExecutor, jobs: list[list[str]]) -> None:
    list(pool.map(_run, jobs))


def _longer(task: str, rival: str) -> int | None:
    """The steps in which a faster rival takes as long as the class defaults; None if it is no faster."""
    ours, theirs = processor_seconds(read_runs(task, OURS)), processor_seconds(read_runs(task, rival))
    return round(find_task(task).steps * ours / theirs) if ours and theirs and theirs < FASTER * ours else None


def _run(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "benchmarks.suite", *arguments]
    code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    print("failed:" if code else "done:", " ".join(arguments), flush=True)


if __name__ == "__main__":
    main()
