"""What a task of the suite says about itself."""

from collections.abc import Callable
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from wolpertinger import ActionSet

EVALUATION_SEED = 10_000  # of the first evaluation episode; training takes seeds below 1,000
EPISODES = 20

Predict = Callable[..., npt.NDArray[np.int64]]
"""A batch of observations becomes a batch of actions; `allowed`, where the environment says what it allows."""


@dataclass(frozen=True)
class Task:
    """An environment with its action set and two anchors: 0 is random play, 1 the best known policy."""

    make: Callable[[], tuple[gym.Env, ActionSet]]
    role: str
    """"development" (settings were chosen on it) or "confirmation" (they were not)."""
    steps: int
    """Transitions that a run trains for, unless told otherwise."""
    random: float
    best: float
    best_is: str
    """What reaches `best`."""
    score: Callable[[gym.Env, Predict], float] | None = None
    """The exact score of a policy, where the environment can say; else episodes are played."""
    counts: dict[str, int] | None = None
    """What the task's environments count while they are used, for the result file."""

    def normalise(self, score: float) -> float:
        return (score - self.random) / (self.best - self.random)

    def evaluate(self, predict: Predict, episodes: int = EPISODES) -> float:
        """The mean return of the same episodes every time, or the exact score."""
        env, _ = self.make()
        return play(env, predict, episodes) if self.score is None else self.score(env, predict)


def play(env: gym.Env, predict: Predict, episodes: int, seed: int = EVALUATION_SEED) -> float:
    """The mean return of `episodes` episodes."""
    total, restricts = 0.0, env.has_wrapper_attr("allowed_actions")
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed + episode)
        ended = False
        while not ended:
            known = {"allowed": [env.get_wrapper_attr("allowed_actions")()]} if restricts else {}
            obs, reward, terminated, truncated, _ = env.step(predict(np.asarray(obs)[None], **known)[0])
            total, ended = total + float(reward), terminated or truncated
    return total / episodes
