"""Algorithm 2: what is learned from a batch of transitions. No environment, no Stable-Baselines3, no logging here."""

from typing import Any

from wolpertinger.learners.base import REJECTED, Batch, Learner, LearnerFactory, Networks
from wolpertinger.learners.ddpg import DDPG
from wolpertinger.learners.offline import Offline
from wolpertinger.learners.td3 import TD3
from wolpertinger.policy import Policy
from wolpertinger.settings import Settings, read_settings, show

LEARNERS: dict[str, type[Settings]] = {"ddpg": DDPG, "td3": TD3, "offline": Offline}
"""Learners by short names."""


def make_learner_settings(learner: Any) -> LearnerFactory:
    """What makes the learner, from its name, its settings or their JSON; or a callable of the user's own."""
    return read_settings("learner", learner, LEARNERS, takes=("networks", "policy", "tau"))


def make_learner(make: LearnerFactory, networks: Networks, policy: Policy, tau: float) -> Learner:
    """The learner; refuses what cannot learn."""
    learner = make(networks, policy, tau)
    if not callable(getattr(learner, "update", None)):
        raise TypeError(f"learner={show(make)} made {show(learner)}, which has no update(batch)")
    return learner


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
    "make_learner",
    "make_learner_settings",
]
