"""What k costs: training steps per second, predicted from a few measured k."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from wolpertinger.agent import Wolpertinger

ROUNDS = 9  # of timing, every k in each of them: a slow moment of the machine then hits all alike
TIMED = 5  # k that are timed; the line knows the others
SLOW = 0.25  # seconds of choosing in a step from which on a larger k is not timed any more


@dataclass(frozen=True)
class Cost:
    """Seconds that choosing takes in one training step of all environments, by k."""

    timed: dict[int, float]
    apart: list[int]
    """Of these, the k that the line leaves out, since they go ways of their own: 1, and all of A."""
    base: float
    """Of the line through what was timed: its value at k = 0, ..."""
    slope: float
    """... and what a candidate adds."""

    def seconds(self, k: int) -> float:
        """By the line, or as timed where the line leaves k out."""
        return self.timed[k] if k in self.apart else max(self.base + self.slope * k, min(self.timed.values()))


def measure_cost(agent: Wolpertinger, observations: npt.NDArray[Any], ks: Sequence[int], n_envs: int) -> Cost:
    """Time a training step's choices at a few of `ks` and put a line through them; the agent's k is what it was."""
    step, before = _step(agent, observations, n_envs), agent.k
    try:
        timed = _time(agent, step, _affordable(agent, step, ks))
    finally:
        agent.k = before
    inner = {k: seconds for k, seconds in timed.items() if 1 < k < agent.actions.n}
    if len(inner) < 2:  # too few for a line
        return Cost(timed, list(timed), *_line(timed))
    return Cost(timed, [k for k in timed if k not in inner], *_line(inner))


def _step(agent: Wolpertinger, observations: npt.NDArray[Any], n_envs: int) -> Callable[[], float]:
    """What a step chooses: an action in every environment, and the target's for each sample of the updates."""
    acting = _choice(agent, agent.policy.act, observations, n_envs)
    learning = _choice(agent, agent.policy.choose, observations, agent.batch_size)
    choices = updates_per_step(agent, n_envs) * (2 if agent.gradient_at == "action" else 1)

    def seconds() -> float:
        start = perf_counter()
        acting()
        acted = perf_counter()
        learning()
        return acted - start + choices * (perf_counter() - acted)

    return seconds


def updates_per_step(agent: Wolpertinger, n_envs: int) -> float:
    """Updates that follow one step of all environments."""
    if agent.gradient_steps < 0:  # one for every transition
        return n_envs
    frequency: Any = agent.train_freq
    return agent.gradient_steps / frequency.frequency if frequency.unit.value == "step" else 1.0


def _choice(
    agent: Wolpertinger, choose: Callable[..., Any], observations: npt.NDArray[Any], n: int
) -> Callable[[], Any]:
    """Choosing in n states."""
    rows = np.arange(n) % len(observations)
    obs, _ = agent.policy.obs_to_tensor(observations[rows])
    with torch.no_grad():
        proto = agent.actor(obs)
    return lambda: choose(obs, proto, agent.critic)


def _affordable(agent: Wolpertinger, step: Callable[[], float], ks: Sequence[int]) -> list[int]:
    """A few of `ks`, spread evenly, up to the first one that is slow; it also warms up what the timing must not see."""
    tried: list[int] = []
    for k in sorted(ks):
        agent.k = k
        tried.append(k)
        step()  # an index that keeps a recall tunes itself at the first lookup for a k
        if step() > SLOW and len(tried) > 2:
            break
    places = np.linspace(0, len(tried) - 1, min(TIMED, len(tried))).round().astype(int)
    return [tried[place] for place in places]


def _time(agent: Wolpertinger, step: Callable[[], float], ks: Sequence[int]) -> dict[int, float]:
    seconds: dict[int, list[float]] = {k: [] for k in ks}
    for _ in range(ROUNDS):
        for k in ks:
            agent.k = k
            seconds[k].append(step())
    return {k: median(found) for k, found in seconds.items()}


def _line(timed: dict[int, float]) -> tuple[float, float]:
    """Value at 0 and slope of the line through times by k."""
    ks, seconds = np.array(list(timed)), np.array(list(timed.values()))
    slope, base = np.polyfit(ks, seconds, 1, w=1 / seconds)  # errors count in proportion
    return (float(base), float(slope)) if slope > 0 else (float(seconds.mean()), 0.0)  # where k costs nothing, noise
