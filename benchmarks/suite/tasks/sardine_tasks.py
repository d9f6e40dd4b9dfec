"""SARDINE (`sardine-rec`, NAVER): recommend one of 1,000 items to a user who gets bored of topics, 100 times.

The environment publishes its items' vectors over 10 topics (`item_embedd`): these are the actions' vectors. Its action
space is MultiDiscrete([1000]), which `OneItem` makes Discrete(1000). The observation is its own `IdealState`: the
user's vector, the recent topics, the topics the user is bored of (30 numbers).
"""

import gymnasium as gym
import numpy as np
import sardine  # noqa: F401 - registers the environments
from gymnasium import spaces
from sardine.wrappers import IdealState

from benchmarks.suite.task import Task
from wolpertinger import ActionTable, Slate


class OneItem(gym.ActionWrapper):
    """A slate of one item is that item."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.action_space = spaces.Discrete(int(env.action_space.nvec[0]))  # type: ignore[attr-defined]

    def action(self, action: np.int64) -> np.ndarray:
        return np.array([action])


def make(env_id: str) -> tuple[gym.Env, ActionTable]:
    inner = gym.make(f"sardine/{env_id}", disable_env_checker=True)
    env = OneItem(IdealState(inner))
    return env, ActionTable(inner.unwrapped.item_embedd.astype(np.float32))  # type: ignore[attr-defined]


def make_slates(env_id: str) -> tuple[gym.Env, Slate]:
    """Slates of ten items, as the environment takes them."""
    inner = gym.make(f"sardine/{env_id}", disable_env_checker=True)
    items = ActionTable(inner.unwrapped.item_embedd.astype(np.float32))  # type: ignore[attr-defined]
    return IdealState(inner), Slate(items, size=len(inner.action_space.nvec))  # type: ignore[attr-defined]


BORED = Task(
    make=lambda: make("SingleItem-BoredInf-v0"),
    role="development",
    steps=40_000,
    random=9.1,
    best=76.0,
    best_is="an oracle, greedy among items whose topic was clicked less than 4 times lately; plainly greedy: 50.5",
)
STATIC = Task(
    make=lambda: make("SingleItem-Static-v0"),
    role="confirmation",
    steps=40_000,
    random=8.8,
    best=100.0,
    best_is="a greedy oracle that knows the user, which is optimal",
)
SLATES = Task(
    make=lambda: make_slates("SlateTopK-Bored-v0"),
    role="development",
    steps=40_000,
    random=42.5,
    best=141.7,
    best_is="an oracle, greedy by relevance; one that minds boredom earns more",
)
