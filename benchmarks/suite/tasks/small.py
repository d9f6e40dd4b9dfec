"""Sets so small that all actions are candidates: noise on a proto-action explores nothing there."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from benchmarks.suite.task import Task
from wolpertinger import ActionTable


class Identity(gym.Env):
    """Name the one of four symbols that is shown, 100 times. The vectors are one-hot."""

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(4)
        self.observation_space = spaces.Box(0, 1, (4,), np.float32)

    def _draw(self):
        self.shown = int(self.np_random.integers(4))
        return np.eye(4, dtype=np.float32)[self.shown]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._draw(), {}

    def step(self, action):
        reward, self.steps = float(action == self.shown), self.steps + 1
        return self._draw(), reward, False, self.steps == 100, {}


class BitFlipping(gym.Env):
    """Turn 8 bits into 8 other bits, one flip a step, at most 8: -1 a step until it is done. Vectors are one-hot."""

    BITS = 8

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(self.BITS)
        self.observation_space = spaces.Box(-1, 1, (2 * self.BITS,), np.float32)

    def _observe(self):
        return np.concatenate([self.bits, self.goal]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bits, self.goal = self.np_random.choice([-1.0, 1.0], size=(2, self.BITS))
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.bits = self.bits.copy()
        self.bits[action] *= -1
        self.steps += 1
        done = bool((self.bits == self.goal).all())
        return self._observe(), 0.0 if done else -1.0, done, self.steps == self.BITS and not done, {}


IDENTITY = Task(
    make=lambda: (Identity(), ActionTable(np.eye(4, dtype=np.float32))),
    role="development",
    steps=5_000,
    random=25.0,
    best=100.0,
    best_is="naming the symbol",
)
BIT_FLIPPING = Task(
    make=lambda: (BitFlipping(), ActionTable(np.eye(BitFlipping.BITS, dtype=np.float32))),
    role="development",
    steps=30_000,
    random=-7.9,
    best=-3.1,
    best_is="flipping each wrong bit once",
)
