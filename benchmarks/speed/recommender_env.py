"""Cost of one transition of the recommender: one user at a time, against many users stepped together in numpy."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

import wolpertinger  # noqa: F401 - registers the environments
from benchmarks.measure import summarise, time_rounds, write_result
from wolpertinger.envs import GymnasiumVecEnv

ITEMS, USERS = 835, 256
SINGLE_STEPS, VECTOR_STEPS = 5_000, 400  # in a round
ROUNDS = 31
TARGET = 50.0
ID = "wolpertinger/Recommender-v0"


def single_user() -> Callable[[], int]:
    """`gym.make(...)`, reset at the end of every session."""
    env = gym.make(ID, items=ITEMS)
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(ITEMS, size=SINGLE_STEPS)

    def work() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return SINGLE_STEPS

    return work


def many_users(*, through_sb3: bool) -> Callable[[], int]:
    """`gym.make_vec(...)`, by itself or as Stable-Baselines3's `VecEnv`."""
    vector = gym.make_vec(ID, num_envs=USERS, items=ITEMS)
    env: Any = GymnasiumVecEnv(vector) if through_sb3 else vector
    vector.reset(seed=0)
    actions = np.random.default_rng(0).integers(ITEMS, size=(VECTOR_STEPS, USERS))

    def work() -> int:
        for action in actions:
            env.step(action)
        return VECTOR_STEPS * USERS

    return work


def main() -> None:
    contenders = {
        "single": single_user(),
        "vector": many_users(through_sb3=False),
        "vector through GymnasiumVecEnv": many_users(through_sb3=True),
    }
    time_rounds(contenders, rounds=2)  # warm up
    seconds = time_rounds(contenders, ROUNDS)
    ratios = {name: [a / b for a, b in zip(seconds["single"], s, strict=True)] for name, s in seconds.items()}
    rows = {
        name: {
            "microseconds_per_transition": summarise([1e6 * s for s in seconds[name]]),
            "times_below_single": summarise(ratios[name]),
        }
        for name in contenders
    }

    print(f"{ITEMS} items, {USERS} users, medians of {ROUNDS} interleaved rounds")
    print(f"{'':32}{'us/transition':>14}{'times below single':>20}")
    for name, row in rows.items():
        cost, ratio = row["microseconds_per_transition"]["median"], row["times_below_single"]["median"]
        print(f"{name:32}{cost:14.3f}{ratio:20.1f}")
    setting = {"items": ITEMS, "users": USERS, "rounds": ROUNDS, "target_times_below_single": TARGET}
    print(write_result("speed.recommender_env", {**setting, "results": rows}))


if __name__ == "__main__":
    main()
