"""Reinforcement learning with thousands, millions or 2^100 discrete actions.

Importing the package registers its Gymnasium environments.
"""

from wolpertinger import envs
from wolpertinger.actions import ActionProduct, ActionSet, ActionTable
from wolpertinger.agent import CheckpointError, Explanation, Exploration, Wolpertinger
from wolpertinger.envs import discretize

__all__ = [
    "ActionProduct",
    "ActionSet",
    "ActionTable",
    "CheckpointError",
    "Explanation",
    "Exploration",
    "Wolpertinger",
    "discretize",
    "envs",
]
