"""Gymnasium's continuous control in levels: every combination of evenly spaced levels per joint, never enumerated.

Random scores are measured (100 episodes). The best scores are round figures for continuous TD3, not measured here:
replace them by runs before a normalised score is reported.
"""

import gymnasium as gym

from benchmarks.suite.task import Task
from wolpertinger import ActionProduct, discretize


def make(env_id: str, levels: int) -> tuple[gym.Env, ActionProduct]:
    env = discretize(gym.make(env_id), levels)
    return env, env.actions  # type: ignore[attr-defined]


REACHER = Task(
    make=lambda: make("Reacher-v5", 21),
    role="development",
    steps=50_000,
    random=-47.0,
    best=-3.7,
    best_is="TD3 and SAC in the literature, continuous actions",
)
HOPPER = Task(
    make=lambda: make("Hopper-v5", 21),
    role="development",
    steps=200_000,
    random=16.3,
    best=3_500.0,
    best_is="TD3 at a million steps, continuous actions",
)
HALF_CHEETAH = Task(
    make=lambda: make("HalfCheetah-v5", 21),
    role="development",
    steps=200_000,
    random=-297.0,
    best=10_000.0,
    best_is="TD3 at a million steps, continuous actions",
)
PENDULUM = Task(
    make=lambda: make("Pendulum-v1", 1_001),
    role="development",
    steps=20_000,
    random=-1_171.0,
    best=-145.0,
    best_is="TD3 and SAC, continuous actions",
)
