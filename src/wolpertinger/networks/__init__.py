"""Actor and critics. They speak in the actions' own vectors and scale them to [-1, 1] inside; nobody else does."""

from wolpertinger.networks.actor import Actor
from wolpertinger.networks.critic import CRITICS, Critic, make_critic_settings
from wolpertinger.networks.factored import Factored
from wolpertinger.networks.mlp import MLP
from wolpertinger.networks.per_item import PerItem
from wolpertinger.networks.polyak import PolyakUpdate
from wolpertinger.networks.two_tower import TwoTower

__all__ = [
    "CRITICS",
    "MLP",
    "Actor",
    "Critic",
    "Factored",
    "PerItem",
    "PolyakUpdate",
    "TwoTower",
    "make_critic_settings",
]
