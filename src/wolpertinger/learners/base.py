"""What learners have in common: a batch of transitions, the networks, a step of an optimiser."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from wolpertinger.actions import Allowed
from wolpertinger.networks import Actor, Critic
from wolpertinger.policy import Policy


@dataclass(frozen=True)
class Transitions:
    """A batch of what happened. Observations are tensors (batch, ...), or dicts of them."""

    obs: Any
    actions: Tensor
    """That were executed: ids (batch,) or digits (batch, d)."""
    rewards: Tensor
    """Or n-step returns (batch,)."""
    next_obs: Any
    discounts: Tensor
    """Of the value of the next state (batch,): 0 where the episode terminated, gamma or gamma**n elsewhere. Time-outs
    do not terminate."""
    next_allowed: Allowed | None = None
    """What the next states allow; None: all of A."""
    allowed: Allowed | None = None
    """What the states themselves allow, where that is known."""
    vectors: Tensor | None = None
    """Of the executed actions (batch, dim), where vectors come with the state."""


@dataclass(frozen=True)
class Networks:
    """Actor and critic, each with its optimiser, and their targets."""

    actor: Actor
    actor_target: Actor
    critic: Critic
    critic_target: Critic


class Learner(Protocol):
    """Updates the networks from batches of transitions."""

    def update(self, batch: Transitions) -> dict[str, Tensor]:
        """Learn from one batch; returns the losses, detached, by name."""


LearnerFactory = Callable[[Networks, Policy, float], Learner]
"""Makes a learner from networks, policy and tau."""


def minimise(loss: Tensor, network: Actor | Critic, max_grad_norm: float | None = None) -> None:
    """One step of the network's own optimiser."""
    parameters = [parameter for group in network.optimizer.param_groups for parameter in group["params"]]
    for parameter in parameters:  # as `zero_grad` does, in a fraction of its time
        parameter.grad = None
    # Without `inputs` the actor's loss would also compute the gradient of every weight of the critic, for nothing.
    loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]
    if max_grad_norm is not None:
        torch.nn.utils.clip_grad_norm_(parameters, max_grad_norm)
    network.optimizer.step()
