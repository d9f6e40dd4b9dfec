"""`gym-invmgmt`'s `Serial-v0`: how much to order on each of three links of a supply chain, for 30 days.

The environment allows orders of 0 to 3,200 a link and day, the most that could ever be in stock. Demand is 20 a day
on average. Bounds are narrowed to `MOST` a link, in steps of 1: 101**3 actions. An order beyond what the supplier has
is cut to what it has, so larger orders add nothing but at the raw materials, where they are a month's demand.
"""

import gym_invmgmt  # noqa: F401 - registers the environments
import gymnasium as gym
import numpy as np

from benchmarks.suite.task import Task
from wolpertinger import ActionProduct, discretize

MOST = 100.0


class Narrow(gym.ActionWrapper):
    """The same orders, of at most `MOST`; observations as float32."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.action_space = gym.spaces.Box(0.0, MOST, env.action_space.shape, np.float64)

    def action(self, action):
        return action


def make() -> tuple[gym.Env, ActionProduct]:
    inner = gym.make("GymInvMgmt/Serial-v0", disable_env_checker=True)
    env = discretize(Narrow(inner), int(MOST) + 1)
    return env, env.actions  # type: ignore[attr-defined]


INVENTORY = Task(
    make=make,
    role="development",
    steps=50_000,
    random=50.0,
    best=898.0,
    best_is="the best base-stock policy that a random search found",
)
