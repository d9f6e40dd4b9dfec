"""The library's own tasks where states allow some actions only: items in stock, plans that do not run into walls."""

from functools import cache

import gymnasium as gym
import numpy as np
import numpy.typing as npt

import wolpertinger  # noqa: F401 - registers the environments
from benchmarks.suite.task import EPISODES, Task, play
from wolpertinger import ActionSet

ITEMS, SHARE, PLAN = 835, 0.01, 10


class InStock(gym.Wrapper):
    """The recommender with one item in a hundred in stock, others in every episode."""

    def reset(self, **options):
        obs, info = self.env.reset(**options)
        n = self.env.unwrapped.actions.n
        self.stock = np.sort(self.env.unwrapped.np_random.choice(n, max(1, round(SHARE * n)), replace=False))
        return obs, info

    def allowed_actions(self) -> npt.NDArray[np.int64]:
        """The items in stock."""
        return self.stock

    def best_action(self) -> np.int64:
        """What earns most at once."""
        model, state = self.env.unwrapped.model, self.env.unwrapped.state
        chances = model.acceptance.at(np.full(len(self.stock), state), self.stock)
        return self.stock[np.argmax(chances * model.rewards[self.stock])]


@cache
def moves_of_plans() -> npt.NDArray[np.int64]:
    """Every plan's moves (2**PLAN, PLAN): 0 is right, 1 is down."""
    return (np.arange(2**PLAN)[:, None] >> np.arange(PLAN)[::-1]) & 1


class Walls(gym.Wrapper):
    """Puddle World whose edge is a wall: a plan that would push against it is not allowed."""

    def allowed_actions(self) -> npt.NDArray[np.int64]:
        """Plans that stay on the map until they end, or reach the goal."""
        world = self.env.unwrapped
        (row, col), (rows, cols) = world.position, world.map.cells.shape
        right, down = cols - 1 - col, rows - 1 - row
        made = moves_of_plans()[:, : right + down]
        downs = made.sum(axis=1)
        return np.flatnonzero((downs <= down) & (made.shape[1] - downs <= right))


def make_stock() -> tuple[gym.Env, ActionSet]:
    env = gym.make("wolpertinger/Recommender-v0", items=ITEMS)
    return InStock(env), env.unwrapped.actions  # type: ignore[attr-defined]


def make_walls() -> tuple[gym.Env, ActionSet]:
    env = gym.make("wolpertinger/PuddleWorld-v0", plan=PLAN)
    return Walls(env), env.unwrapped.actions  # type: ignore[attr-defined]


def one_episode(env, predict) -> float:
    return play(env, predict, 1)


def anchors(episodes: int = 1_000) -> dict[str, float]:
    """What random allowed actions earn in both, and in the recommender what is best at once."""
    rng = np.random.default_rng(0)
    found = {}
    for name, make in (("stock", make_stock), ("walls", make_walls)):
        env, _ = make()
        found[f"{name}, random"] = play(env, lambda obs, allowed: rng.choice(allowed[0], 1), episodes)
    env, _ = make_stock()
    found["stock, greedy"] = play(env, lambda obs, allowed: [env.best_action()], episodes)
    return found


STOCK = Task(
    make=make_stock,
    role="development",
    steps=100_000,
    random=0.081,
    best=0.568,
    best_is="an oracle, greedy by W r among what is in stock",
    score=lambda env, predict: play(env, predict, 50 * EPISODES),
)
WALLS = Task(
    make=make_walls,
    role="confirmation",
    steps=50_000,
    random=94.8,
    best=143.0,
    best_is="dynamic programming, whose path keeps off the walls",
    score=one_episode,
)

if __name__ == "__main__":
    print(anchors())
