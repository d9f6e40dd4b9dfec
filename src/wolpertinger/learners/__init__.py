"""Algorithm 2: what is learned from a batch of transitions. No environment, no Stable-Baselines3, no logging here."""

from typing import Any

from wolpertinger.learners.base import REJECTED, Batch, Learner, LearnerFactory, Networks
from wolpertinger.learners.ddpg import DDPG
from wolpertinger.learners.offline import Offline
from wolpertinger.learners.td3 import TD3
from wolpertinger.settings import Settings, read_settings

LEARNERS: dict[str, type[Settings]] = {"ddpg": DDPG, "td3": TD3, "offline": Offline}
"""Learners by short names."""


def make_learner_settings(learner: Any) -> LearnerFactory:
    """What makes the learner, from its name, its settings or their JSON; or a callable of the user's own."""
    return read_settings("learner", learner, LEARNERS)


__all__ = [
    "DDPG",
    "LEARNERS",
    "REJECTED",
    "TD3",
    "Batch",
    "Learner",
    "LearnerFactory",
    "Networks",
    "Offline",
    "make_learner_settings",
]
