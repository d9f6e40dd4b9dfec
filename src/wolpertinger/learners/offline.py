"""Learning from a log: DDPG that keeps to what the log supports."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wolpertinger.learners.base import Batch, Networks
from wolpertinger.learners.ddpg import DDPG, DDPGLearner
from wolpertinger.policy import Policy, Ranking
from wolpertinger.settings import check_number

CONTRASTED = 256  # actions of a batch that a conservative critic compares the executed one with, at most


@dataclass(frozen=True)
class Offline(DDPG):
    """A critic that is pessimistic about what a state's log does not show, and an actor that stays near the log."""

    kind: ClassVar[str] = "offline"
    conservative: float = 0.1
    """Weight of CQL's penalty (Kumar et al., 2020): lowers the values of the batch's other actions against the value of
    the executed one."""
    temperature: float = 0.1
    """Of that penalty, in standard units of value: towards 0 it lowers only the most valued of the other actions."""
    pull: float = 1.0
    """Pulls the proto-action towards the executed action, beside a value in units of its mean size, as TD3+BC does
    (Fujimoto and Gu, 2021); 0 does not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("conservative", self.conservative)
        check_number("temperature", self.temperature, above=True)
        check_number("pull", self.pull)

    def __call__(self, networks: Networks, policy: Policy, tau: float) -> "OfflineLearner":
        return OfflineLearner(self, networks, policy, tau)


class OfflineLearner(DDPGLearner):
    """`DDPGLearner` with CQL's penalty in the critic's loss and TD3+BC's pull in the actor's."""

    settings: Offline

    def _critic_loss(self, batch: Batch, target: Tensor) -> Tensor:
        loss = super()._critic_loss(batch, target)
        if not self.settings.conservative:
            return loss
        critic = self.networks.critic
        vectors = self.policy.embed(batch.actions)
        # The batch's actions are drawn as the log has them: a common one is lowered as often as it is raised.
        values = critic.values(critic.cross(batch.obs, vectors[:CONTRASTED]))  # (critics, batch, m)
        executed = critic.values(critic(batch.obs, vectors))
        temperature = float(self.settings.temperature)
        gap = temperature * (values / temperature).logsumexp(dim=-1) - executed
        return loss + float(self.settings.conservative) * len(values) * gap.mean()

    def _actor_loss(self, batch: Batch, best: Ranking) -> Tensor:
        loss = super()._actor_loss(batch, best)
        if not self.settings.pull:
            return loss
        with torch.no_grad():
            vectors = self.policy.embed(batch.actions)
            q = self.networks.critic(batch.obs, vectors)[0]
            size = self.networks.critic.values(q).abs().mean().clamp(min=1e-6)
        return loss / size + float(self.settings.pull) * self.networks.actor.distance(batch.obs, vectors)
