"""How much to order of each of six products: digits that nobody has said anything about, 10^6 orders."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from benchmarks.suite.task import Task
from wolpertinger import ActionSet

DAYS, PRODUCTS, MOST = 50, 6, 9


class Orders(gym.Env):
    """Sell what is asked for, Poisson with a mean of 1 to 7 that goes up and down over three weeks.

    A piece sold brings 2 and costs 1, one that lies over a day 0.2, one that was asked for in vain 0.5; in tens.
    """

    def __init__(self) -> None:
        self.action_space = spaces.MultiDiscrete([MOST + 1] * PRODUCTS)
        self.observation_space = spaces.Box(0, 60, (2 * PRODUCTS,), np.float32)

    def _mean(self):
        return 4 + 3 * np.sin(self.phase + 0.3 * self.day)

    def _observe(self):
        return np.concatenate([self.stock, self._mean()]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock, self.day = np.full(PRODUCTS, 5.0), 0
        self.phase = self.np_random.uniform(0, 6.28, PRODUCTS)
        return self._observe(), {}

    def step(self, action):
        self.stock = np.minimum(60, self.stock + action)
        asked = self.np_random.poisson(self._mean())
        sold = np.minimum(self.stock, asked)
        self.stock -= sold
        self.day += 1
        earned = (2 * sold - action - 0.2 * self.stock - 0.5 * (asked - sold)).sum() / 10
        return self._observe(), float(earned), False, self.day == DAYS, {}


def make() -> tuple[gym.Env, ActionSet | None]:
    return Orders(), None


def order_up_to(deviations: float, episodes: int = 200) -> float:
    """The mean return of ordering up to so many standard deviations above the mean demand of the day."""
    env, total = Orders(), 0.0
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        ended = False
        while not ended:
            stock, mean = np.split(obs, 2)
            order = np.clip(np.round(mean + deviations * np.sqrt(mean) - stock), 0, MOST).astype(np.int64)
            obs, reward, _, ended, _ = env.step(order)
            total += reward
    return total / episodes


ORDERS = Task(
    make=make,
    role="development",
    steps=20_000,
    random=-58.2,
    best=100.5,
    best_is="ordering up to one standard deviation above the mean demand, which it knows",
)

if __name__ == "__main__":
    print({deviations: order_up_to(deviations) for deviations in (0.0, 0.5, 1.0, 1.5)})
