"""Reinforcement learning with thousands, millions or 2^100 discrete actions.

Importing the package registers its Gymnasium environments; torch and Stable-Baselines3 load with the first name that
needs them.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from wolpertinger import envs
from wolpertinger.imports import lazy_names

if TYPE_CHECKING:
    from wolpertinger.actions import ActionProduct, ActionSet, ActionTable
    from wolpertinger.agent import CheckpointError, Explanation, Exploration, Wolpertinger
    from wolpertinger.envs import discretize
else:  # type checkers know the names above, and no others
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "wolpertinger.actions": ("ActionProduct", "ActionSet", "ActionTable"),
            "wolpertinger.agent": ("CheckpointError", "Explanation", "Exploration", "Wolpertinger"),
            "wolpertinger.envs": ("discretize",),
        },
    )

__version__ = version("wolpertinger")

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
