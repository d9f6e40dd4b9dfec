"""A shop of 50,000 items: 32-d vectors in 200 clusters, a user of 16 numbers, rewards sigmoid(u M v) with M hidden.

The action's vectors are the items'. A user stays for 10 steps and drifts at random meanwhile: what is recommended
changes the reward only. `SHOP` cuts the episode (truncated), `ENDS` ends it (terminated), `UNITS` is the first one in
other units: rewards in hundredths, every other number of the user a hundred times as large. `LARGE` has 300,000 items.
"""

from functools import cache

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from benchmarks.suite.task import Task
from wolpertinger import ActionTable

ITEMS, LARGE_ITEMS, CLUSTERS, DIM, USER = 50_000, 300_000, 200, 32, 16
SPREAD = 0.4  # of a cluster, where its centre is of length 1 per number
SLOPE, OFFSET = 1.6, -3.05  # set so that random play earns about 0.95, the best fixed item 1.9 and the oracle 9.1 of 10
NOISE, DRIFT, STEPS = 0.1, 0.1, 10
CENTS = 100


@cache
def catalogue(items: int = ITEMS, seed: int = 1) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The items' vectors (items, 32), and what each of a user's numbers makes of an item (items, 16)."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLUSTERS, DIM))
    vectors = centres[rng.integers(CLUSTERS, size=items)] + SPREAD * rng.normal(size=(items, DIM))
    vectors /= np.sqrt(1 + SPREAD**2)
    hidden = rng.normal(size=(USER, DIM)) / np.sqrt(DIM)
    return vectors.astype(np.float32), (vectors @ hidden.T).astype(np.float32)


class Shop(gym.Env):
    """Action space: Discrete(items). Observation: the user's vector, of length 1. Reward: see above."""

    def __init__(self, *, terminates: bool, items: int = ITEMS) -> None:
        self.vectors, self.appeal = catalogue(items)
        self.terminates = terminates
        self.action_space = spaces.Discrete(items)
        self.observation_space = spaces.Box(-1, 1, (USER,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.user, self.steps = self._unit(self.np_random.normal(size=USER)), 0
        return self.user, {}

    def step(self, action):
        mean = 1 / (1 + np.exp(-(SLOPE * self.appeal[action] @ self.user + OFFSET)))
        reward = mean + NOISE * self.np_random.normal()
        self.user = self._unit(self.user + DRIFT * self.np_random.normal(size=USER))
        self.steps += 1
        over = self.steps == STEPS
        return self.user, float(reward), over and self.terminates, over and not self.terminates, {}

    @staticmethod
    def _unit(vector):
        return (vector / np.linalg.norm(vector)).astype(np.float32)


class OtherUnits(gym.Wrapper):
    """The same shop, measured otherwise."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.units = np.tile(np.float32([100, 1]), USER // 2)
        self.observation_space = spaces.Box(-self.units, self.units)

    def reset(self, **kwargs):
        user, info = self.env.reset(**kwargs)
        return user * self.units, info

    def step(self, action):
        user, reward, *rest = self.env.step(action)
        return user * self.units, CENTS * reward, *rest


def make(*, terminates: bool, items: int = ITEMS) -> tuple[gym.Env, ActionTable]:
    return Shop(terminates=terminates, items=items), ActionTable(catalogue(items)[0])


def anchors(items: int = ITEMS, users: int = 2_000) -> dict[str, float]:
    """What random play, the best fixed item and an oracle that knows M earn in an episode."""
    rng = np.random.default_rng(1)
    drawn = rng.normal(size=(users, USER))
    logits = SLOPE * (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)) @ catalogue(items)[1].T + OFFSET
    reward = STEPS / (1 + np.exp(-logits))
    return {"random": reward.mean(), "fixed": reward.mean(axis=0).max(), "oracle": reward.max(axis=1).mean()}


SHOP = Task(
    make=lambda: make(terminates=False),
    role="development",
    steps=20_000,
    random=0.96,
    best=9.08,
    best_is="an oracle that knows M",
)
ENDS = Task(
    make=lambda: make(terminates=True),
    role="confirmation",
    steps=20_000,
    random=0.96,
    best=9.08,
    best_is="an oracle that knows M",
)
UNITS = Task(
    make=lambda: (OtherUnits(Shop(terminates=False)), ActionTable(catalogue()[0])),
    role="confirmation",
    steps=20_000,
    random=CENTS * 0.96,
    best=CENTS * 9.08,
    best_is="an oracle that knows M",
)

LARGE = Task(
    make=lambda: make(terminates=False, items=LARGE_ITEMS),
    role="development",
    steps=20_000,
    random=1.03,
    best=9.43,
    best_is="an oracle that knows M",
)

if __name__ == "__main__":
    print(anchors(), anchors(LARGE_ITEMS, 500))
