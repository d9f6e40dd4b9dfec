"""Reinforcement learning with thousands, millions or 2^100 discrete actions.

Importing the package registers its Gymnasium environments.
"""

from wolpertinger import envs
from wolpertinger.actions import ActionProduct, ActionSet, ActionTable, TooManyActionsError
from wolpertinger.agent import CheckpointError, Explanation, Exploration, Wolpertinger
from wolpertinger.envs import discretize
from wolpertinger.learners import DDPG, TD3
from wolpertinger.networks import MLP, TwoTower
from wolpertinger.policy import BestByCritic, Candidates, CandidateSource, Everything, Nearest, States, Union

__all__ = [
    "DDPG",
    "MLP",
    "TD3",
    "ActionProduct",
    "ActionSet",
    "ActionTable",
    "BestByCritic",
    "CandidateSource",
    "Candidates",
    "CheckpointError",
    "Everything",
    "Explanation",
    "Exploration",
    "Nearest",
    "States",
    "TooManyActionsError",
    "TwoTower",
    "Union",
    "Wolpertinger",
    "discretize",
    "envs",
]
