"""Reinforcement learning with thousands, millions or 2^100 discrete actions.

Importing the package registers its Gymnasium environments; torch and Stable-Baselines3 load with the first name that
needs them.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from wolpertinger import envs
from wolpertinger.imports import lazy_names

if TYPE_CHECKING:
    from wolpertinger.actions import (
        ActionIds,
        ActionProduct,
        ActionSet,
        ActionTable,
        Allowed,
        Levels,
        NoAllowedActionError,
        OfferedActions,
        Slate,
        TooManyActionsError,
        UnknownActionError,
    )
    from wolpertinger.agent import (
        BadTransitionError,
        CheckpointError,
        Explanation,
        Exploration,
        RankedActions,
        Wolpertinger,
        WorseThanRandom,
    )
    from wolpertinger.atomic import SaveError
    from wolpertinger.data import Columns, LogError, Transitions
    from wolpertinger.envs import discretize
    from wolpertinger.learners import DDPG, TD3, Offline
    from wolpertinger.networks import MLP, Factored, PerItem, TwoTower
    from wolpertinger.policy import (
        BestByCritic,
        BestByFactor,
        Candidates,
        CandidateSource,
        Everything,
        Nearest,
        SlotBySlot,
        States,
        TopItems,
        Union,
    )
else:  # type checkers know the names above, and no others
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "wolpertinger.actions": (
                "ActionIds",
                "ActionProduct",
                "ActionSet",
                "ActionTable",
                "Allowed",
                "Levels",
                "NoAllowedActionError",
                "OfferedActions",
                "Slate",
                "TooManyActionsError",
                "UnknownActionError",
            ),
            "wolpertinger.agent": (
                "BadTransitionError",
                "CheckpointError",
                "Explanation",
                "Exploration",
                "RankedActions",
                "Wolpertinger",
                "WorseThanRandom",
            ),
            "wolpertinger.atomic": ("SaveError",),
            "wolpertinger.data": ("Columns", "LogError", "Transitions"),
            "wolpertinger.envs": ("discretize",),
            "wolpertinger.learners": ("DDPG", "TD3", "Offline"),
            "wolpertinger.networks": ("MLP", "Factored", "PerItem", "TwoTower"),
            "wolpertinger.policy": (
                "BestByCritic",
                "BestByFactor",
                "Everything",
                "Nearest",
                "SlotBySlot",
                "States",
                "TopItems",
                "Union",
            ),
            "wolpertinger.policy.candidates": ("Candidates",),
            "wolpertinger.policy.sources": ("CandidateSource",),
        },
    )

__version__ = version("wolpertinger")

__all__ = [
    "DDPG",
    "MLP",
    "TD3",
    "ActionIds",
    "ActionProduct",
    "ActionSet",
    "ActionTable",
    "Allowed",
    "BadTransitionError",
    "BestByCritic",
    "BestByFactor",
    "CandidateSource",
    "Candidates",
    "CheckpointError",
    "Columns",
    "Everything",
    "Explanation",
    "Exploration",
    "Factored",
    "Levels",
    "LogError",
    "Nearest",
    "NoAllowedActionError",
    "OfferedActions",
    "Offline",
    "PerItem",
    "RankedActions",
    "SaveError",
    "Slate",
    "SlotBySlot",
    "States",
    "TooManyActionsError",
    "TopItems",
    "Transitions",
    "TwoTower",
    "Union",
    "UnknownActionError",
    "Wolpertinger",
    "WorseThanRandom",
    "discretize",
    "envs",
]
