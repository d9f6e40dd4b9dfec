"""Algorithm 2, lines 12 to 16: DDPG whose target action comes from the full policy."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from wolpertinger.actions.base import MAX_CANDIDATES
from wolpertinger.learners.base import Batch, Networks, minimise
from wolpertinger.networks import PolyakUpdate
from wolpertinger.policy import Policy, Ranking, States
from wolpertinger.policy.scoring import score_exactly
from wolpertinger.policy.sources import GivenSource
from wolpertinger.settings import Settings, check_choice, check_number

SHARED_PER_OWN = 4  # target samples that all states share, for one of each state's own, which costs many times as much
NARROWED = 4  # of a state's own, by keys where there are any, that the target critic ranks
LOSSES = {"mse": F.mse_loss, "huber": F.smooth_l1_loss}


@dataclass(frozen=True)
class DDPG(Settings):
    """The paper's learner; every default is the paper's."""

    kind: ClassVar[str] = "ddpg"
    critic_loss: str = "mse"
    """"mse" (the paper) or "huber"."""
    anchor: float = 0.0
    """Pulls the proto-action towards the action that the full policy picks in the same state, so that the actor stays
    in the region where actions are; 0 is the paper's actor."""
    gradient_at: str = "proto"
    """Where the actor takes the critic's gradient: at its "proto" (the paper), or at the "action" that the full policy
    makes of it, where the critic has been trained; one more lookup and re-ranking an update."""
    max_grad_norm: float | None = None
    """Clip the gradients to this norm; None does not."""
    target_samples: int = 0
    """Where the target action of line 13 comes from: 0, from the full policy (the paper); else it is the best among the
    batch's executed actions and so many random ones, the same for all states. That costs little whatever the size of A,
    and is less prone to overestimate values of actions that were never tried. Where states say what they allow, each
    has a quarter as many random ones of its own, or all, if they are fewer."""

    def __post_init__(self) -> None:
        check_choice("critic_loss", self.critic_loss, LOSSES)
        check_choice("gradient_at", self.gradient_at, ("proto", "action"))
        check_number("anchor", self.anchor)
        check_number("max_grad_norm", self.max_grad_norm, optional=True)
        check_number("target_samples", self.target_samples, most=MAX_CANDIDATES, whole=True)

    def __call__(self, networks: Networks, policy: Policy, tau: float) -> "DDPGLearner":
        return DDPGLearner(self, networks, policy, tau)


class DDPGLearner:
    """Trains actor and critic, and moves their targets."""

    def __init__(self, settings: DDPG, networks: Networks, policy: Policy, tau: float) -> None:
        self.settings, self.networks, self.policy, self.tau = settings, networks, policy, tau
        self.polyak = PolyakUpdate((networks.critic, networks.critic_target), (networks.actor, networks.actor_target))
        if settings.target_samples:
            self._rng = np.random.default_rng(int(torch.randint(2**31, ())))
            self._given = GivenSource(policy.actions, networks.critic_target)
            self._sampled = Policy(policy.actions, self._given, 1, score_exactly, policy.timer)

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Lines 13 to 16 of Algorithm 2; the batch is line 12's."""
        best, losses = self._update_critic(batch)
        losses |= self._update_actor(batch, best)
        self.polyak.step(self.tau)  # line 16
        return losses

    def state_dict(self) -> dict[str, Any]:
        """The random numbers that sampled targets are drawn with."""
        return {"random": self._rng.bit_generator.state} if self.settings.target_samples else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        if self.settings.target_samples:
            self._rng.bit_generator.state = state["random"]

    def _update_critic(self, batch: Batch) -> tuple[Ranking, dict[str, Tensor]]:
        networks, policy = self.networks, self.policy
        # Line 13: the target action comes from the full policy, with target actor and target critic.
        with torch.no_grad():
            best = self._rank_next(batch)
            target = batch.rewards + batch.discounts * best.values[:, 0]  # (batch,)
        # Line 14: the critic learns the value of the action that was executed.
        losses = minimise(
            self._critic_loss(batch, target), networks.critic, self.settings.max_grad_norm, name="critic_loss"
        )
        policy.source.critic_updated()
        return best, losses

    def _critic_loss(self, batch: Batch, target: Tensor) -> Tensor:
        vectors = self.policy.embed(batch.actions) if batch.vectors is None else batch.vectors
        q = self.networks.critic(batch.obs, vectors)  # (critics, batch)
        standard = self.networks.critic.values  # so that the loss does not depend on the reward's unit
        return len(q) * LOSSES[self.settings.critic_loss](standard(q), standard(target).expand_as(q))

    def _update_actor(self, batch: Batch, best: Ranking) -> dict[str, Tensor]:
        # Line 15: the actor climbs the critic, where candidates depend on it.
        if not self.policy.source.needs_actor:
            return {}
        loss = self._actor_loss(batch, best)
        return minimise(loss, self.networks.actor, self.settings.max_grad_norm, name="actor_loss")

    def _rank_next(self, batch: Batch) -> Ranking:
        if not self.settings.target_samples:
            return self.policy.rank(self._next_states(batch), self.networks.critic_target)
        if batch.next_allowed is not None:  # each state has its own: so many random ones of them
            some = batch.next_allowed.thin(self._rng, max(1, self.settings.target_samples // SHARED_PER_OWN))
            states = self.policy.source.narrow(States(batch.next_obs, None, some), NARROWED)
            return self._sampled.rank(states, self.networks.critic_target)
        actions, executed = self.policy.actions, batch.actions.numpy(force=True)
        held = executed[actions.holds(executed)]  # some may have been removed since
        given = np.concatenate([held, actions.sample(self._rng, self.settings.target_samples)])
        self._given.given = torch.from_numpy(given).to(batch.actions.device)
        return self._sampled.rank(States(batch.next_obs), self.networks.critic_target)

    def _next_states(self, batch: Batch) -> States:
        """The next states with the target actor's proto-actions."""
        return self.policy.propose(self.networks.actor_target, batch.next_obs, batch.next_allowed)

    def _actor_loss(self, batch: Batch, best: Ranking) -> Tensor:
        """Minus the value of the proto-action; `best` is what line 13 ranked in the next states."""
        actor, critic = self.networks.actor, self.networks.critic
        # The lookup has no gradient, so the critic's gradient is taken at the proto-action itself; or, with
        # gradient_at="action", at the action it becomes, as if the lookup had moved it there.
        proto = actor(batch.obs)
        if self.settings.gradient_at == "action":
            chosen = self.policy.rank(States(batch.obs, proto, batch.allowed), critic)
            proto = proto + (chosen.vectors[:, 0] - proto).detach()
        loss = -critic.values(critic(batch.obs, proto)[0]).mean()
        if self.settings.anchor:
            loss = loss + float(self.settings.anchor) * actor.distance(batch.next_obs, best.vectors[:, 0])
        return loss
