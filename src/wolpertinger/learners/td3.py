"""TD3 (Fujimoto et al., 2018) over the full policy: target smoothing and a delayed actor, beside twin critics."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from wolpertinger.learners.base import Batch, Networks
from wolpertinger.learners.ddpg import DDPG, DDPGLearner
from wolpertinger.policy import Policy, States
from wolpertinger.settings import check_number


@dataclass(frozen=True)
class TD3(DDPG):
    """DDPG whose targets are smoothed and whose actor waits for the critic; give it policy_kwargs={"n_critics": 2}."""

    kind: ClassVar[str] = "td3"
    policy_delay: int = 2
    """Updates of the critic for one of the actor and of the targets."""
    target_noise: float = 0.2
    """Standard deviation of the noise on target proto-actions, where 1 is half the range of the actions' vectors."""
    target_noise_clip: float = 0.5
    """What that noise is clipped to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("policy_delay", self.policy_delay, least=1, whole=True)
        check_number("target_noise", self.target_noise)
        check_number("target_noise_clip", self.target_noise_clip)

    def __call__(self, networks: Networks, policy: Policy, tau: float) -> "TD3Learner":
        return TD3Learner(self, networks, policy, tau)


class TD3Learner(DDPGLearner):
    """Trains the critic at every update, actor and targets at one in `policy_delay`."""

    settings: TD3
    updates = 0

    def update(self, batch: Batch) -> dict[str, Tensor]:
        self.updates += 1
        best, losses = self._update_critic(batch)
        if self.updates % self.settings.policy_delay == 0:
            losses |= self._update_actor(batch, best)
            self.polyak.step(self.tau)
        return losses

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.updates = int(state["updates"])

    def _next_states(self, batch: Batch) -> States:
        states = super()._next_states(batch)
        if states.proto is None:
            return states
        scale, clip = self.networks.actor.scale, self.settings.target_noise_clip
        unit = scale.to_unit(states.proto)
        noise = (torch.randn_like(unit) * self.settings.target_noise).clamp(-clip, clip)
        return replace(states, proto=scale.to_vectors((unit + noise).clamp(-1, 1)))
