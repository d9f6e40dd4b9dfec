"""The median training steps per second of one cell of the paper's tables."""

import statistics
from time import perf_counter
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.measure import describe_index
from wolpertinger.agent import Wolpertinger
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.config import RunConfig

PARTS = ("lookup", "rerank", "update")
LEAST_STEPS = 3  # that are timed, ...
PATIENCE = 30.0  # ... unless they take longer than so many seconds


def measure(config: RunConfig) -> dict[str, Any]:
    """Train for the config's seconds, counted from the first update; what a step took, and where its time went."""
    agent = make_agent(config, make_env(config))
    timer = StepTimer(config.seconds or PATIENCE)
    agent.learn(config.steps, callback=timer)
    # The first update tunes the lookup and warms everything up.
    steps = timer.steps[1:] or timer.steps
    return {
        "steps_per_second": 1 / statistics.median(steps),
        "step_seconds": steps if len(steps) < LEAST_STEPS else statistics.quantiles(steps, n=4),
        "steps_timed": len(steps),
        "time": {
            name: seconds - timer.before[name]
            for name, seconds in agent.policy.timer.seconds.items()
            if name in timer.before
        },
        "index": describe_index(agent),
        "k": agent.k,
        "n": agent.actions.n,
    }


class StepTimer(BaseCallback):
    """The seconds of every step that trains: update, act, step the environment, store."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.steps: list[float] = []
        self.before: dict[str, float] = {}
        self._start = self._last = 0.0

    def _on_step(self) -> bool:
        now = perf_counter()
        assert isinstance(self.model, Wolpertinger)
        if self.num_timesteps <= self.model.learning_starts + 1:  # an update follows this step for the first time
            self._start = self._last = now
            self.before = {name: self.model.policy.timer.seconds[name] for name in PARTS}
            return True
        self.steps.append(now - self._last)
        self._last = now
        patience = self.seconds if len(self.steps) > LEAST_STEPS else max(self.seconds, PATIENCE)
        return now - self._start < patience
