"""Gymnasium environments with large action sets; importing this package registers them."""

from typing import TYPE_CHECKING

import gymnasium as gym

from wolpertinger.imports import lazy_names

if TYPE_CHECKING:
    from wolpertinger.envs.acceptance import Acceptance
    from wolpertinger.envs.cartpole import CartPoleSwingUp, CartPoleSwingUpVector
    from wolpertinger.envs.discretized import discretize
    from wolpertinger.envs.puddle import PuddleWorld, PuddleWorldVector
    from wolpertinger.envs.puddle_map import PuddleMap
    from wolpertinger.envs.recommender import Recommender, RecommenderVector
    from wolpertinger.envs.sb3_vec_env import GymnasiumVecEnv
    from wolpertinger.envs.user_model import Solution, UserModel
else:  # type checkers know the names above, and no others
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "wolpertinger.envs.acceptance": ("Acceptance",),
            "wolpertinger.envs.cartpole": ("CartPoleSwingUp", "CartPoleSwingUpVector"),
            "wolpertinger.envs.discretized": ("discretize",),
            "wolpertinger.envs.puddle": ("PuddleWorld", "PuddleWorldVector"),
            "wolpertinger.envs.puddle_map": ("PuddleMap",),
            "wolpertinger.envs.recommender": ("Recommender", "RecommenderVector"),
            "wolpertinger.envs.user_model": ("Solution", "UserModel"),
            "wolpertinger.envs.sb3_vec_env": ("GymnasiumVecEnv",),
        },
    )

__all__ = [
    "Acceptance",
    "CartPoleSwingUp",
    "CartPoleSwingUpVector",
    "GymnasiumVecEnv",
    "PuddleMap",
    "PuddleWorld",
    "PuddleWorldVector",
    "Recommender",
    "RecommenderVector",
    "Solution",
    "UserModel",
    "discretize",
]

gym.register(
    "wolpertinger/Recommender-v0",
    entry_point="wolpertinger.envs.recommender:make",
    vector_entry_point="wolpertinger.envs.recommender:make_vector",
)
gym.register(
    "wolpertinger/CartPoleSwingUp-v0",
    entry_point="wolpertinger.envs.cartpole:CartPoleSwingUp",
    vector_entry_point="wolpertinger.envs.cartpole:CartPoleSwingUpVector",
)
gym.register(
    "wolpertinger/PuddleWorld-v0",
    entry_point="wolpertinger.envs.puddle:make",
    vector_entry_point="wolpertinger.envs.puddle:make_vector",
)
gym.register("wolpertinger/Discretized-v0", entry_point="wolpertinger.envs.discretized:make")
gym.register("wolpertinger/Own-v0", entry_point="wolpertinger.envs.own:make")
