"""Train one agent on one task: `python -m benchmarks.suite shop --agent wolpertinger --seed 0 --set k=8 --label k8`.

Writes `benchmarks/results/suite/TASK-LABEL-SEED.json`, and does nothing where that file is already there.
"""

import argparse
import json
import platform
import resource
from importlib.metadata import version
from time import perf_counter, process_time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.measure import RESULTS as ALL_RESULTS
from benchmarks.measure import commit
from benchmarks.suite.agents import make_agent
from benchmarks.suite.task import Predict, Task
from benchmarks.suite.tasks import TASKS, find_task

RESULTS = ALL_RESULTS / "suite"
PACKAGES = ("wolpertinger", "stable-baselines3", "gymnasium", "numpy", "torch", "faiss-cpu")


class Curve(BaseCallback):
    """Scores the policy every so many steps; the seconds of training do not count those of scoring."""

    def __init__(self, task: Task, predict: Predict, every: int, seconds: float | None) -> None:
        super().__init__()
        self.task, self.score, self.every, self.limit = task, predict, every, seconds
        self.points: list[tuple[int, float, float, float]] = []
        """Steps, score, seconds, processor seconds."""
        self.due, self.scoring, self.start = every, np.zeros(2), _clocks()

    @property
    def seconds(self) -> list[float]:
        return [round(float(spent), 2) for spent in _clocks() - self.start - self.scoring]

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.due:
            self.due += self.every
            self.add()
        return self.limit is None or self.seconds[0] < self.limit

    def add(self) -> None:
        seconds, start, mode = self.seconds, _clocks(), self.model.policy.training
        self.points.append((self.num_timesteps, round(self.task.evaluate(self.score), 4), *seconds))
        self.model.policy.set_training_mode(mode)
        self.scoring = self.scoring + _clocks() - start
        print(*self.points[-1], flush=True)


def _clocks() -> npt.NDArray[np.float64]:
    return np.array([perf_counter(), process_time()])


def main() -> None:
    args = parse()
    path = RESULTS / f"{args.task}-{args.label or args.agent}-{args.seed}.json"
    if path.exists() and not args.again:
        print(f"{path.name} is there already")
        return
    torch.set_num_threads(1)
    task, settings = find_task(args.task), read_settings(args.set)
    steps = args.steps or task.steps
    env, actions = task.make()
    agent, predict = make_agent(args.agent, env, actions, seed=args.seed, settings=settings)
    curve = Curve(task, predict, max(1, steps // args.points), args.seconds)
    agent.learn(steps, callback=curve)
    if not curve.points or curve.points[-1][0] < agent.num_timesteps:
        curve.add()
    RESULTS.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(describe(args, settings, task, curve)) + "\n")


def describe(args: argparse.Namespace, settings: dict[str, Any], task: Task, curve: Curve) -> dict[str, Any]:
    """The result file of a run."""
    scores = [score for _, score, *_ in curve.points]
    return {
        "task": args.task,
        "agent": args.agent,
        "label": args.label or args.agent,
        "seed": args.seed,
        "settings": settings,
        "steps": curve.points[-1][0],
        "seconds": curve.points[-1][2],
        "processor_seconds": curve.points[-1][3],
        "last": scores[-1],
        "best": max(scores),
        "random": task.random,
        "best_known": task.best,
        "curve": curve.points,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "machine": platform.processor() or platform.machine(),
        "commit": commit(),
        **({} if task.counts is None else {"counts": task.counts}),
    }


def read_settings(pairs: list[str]) -> dict[str, Any]:
    """`a.b=1` becomes {"a": {"b": 1}}; values are JSON, or else text."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        *outer, last = name.split(".")
        place = settings
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return settings


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=__doc__)
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("--agent", default="wolpertinger", help="see benchmarks/suite/agents.py")
    parser.add_argument("--label", help="name of these settings in the result file (default: the agent)")
    parser.add_argument("--steps", type=int, help="transitions (default: the task's)")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds of training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--points", type=int, default=10, help="evaluations on the way")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the agent")
    parser.add_argument("--again", action="store_true", help="overwrite the result file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
