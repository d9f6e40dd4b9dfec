"""What learners have in common: a batch of transitions, the networks, a step of an optimiser."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from wolpertinger.actions import Allowed
from wolpertinger.networks import Actor, Critic
from wolpertinger.policy import Policy


@dataclass(frozen=True)
class Batch:
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
    """Updates the networks from batches of transitions.

    One with a state of its own, such as counters or random numbers, also has `state_dict()`, which returns numbers,
    text, lists, dicts and numpy arrays, and `load_state_dict(state)`: checkpoints of a run keep it.
    """

    tau: float
    """Of the target networks; the agent sets it before it trains."""

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Learn from one batch; returns the losses, detached, by name, and `REJECTED` if an update was not done."""


LearnerFactory = Callable[[Networks, Policy, float], Learner]
"""Makes a learner from networks, policy and tau."""


REJECTED = "rejected_updates"


def minimise(
    loss: Tensor, network: Actor | Critic, max_grad_norm: float | None = None, *, name: str = "loss"
) -> dict[str, Tensor]:
    """One step of the network's own optimiser; returns the loss by its name, or `REJECTED` where nothing was done.

    A loss, or a gradient's square, that is not finite would leave its mark on weights and Adam's moments for good.
    """
    parameters = [parameter for group in network.optimizer.param_groups for parameter in group["params"]]
    for parameter in parameters:  # as `zero_grad` does, in a fraction of its time
        parameter.grad = None
    # Without `inputs` the actor's loss would also compute the gradient of every weight of the critic, for nothing.
    loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    if not math.isfinite((loss + norm * norm).item()):
        return {REJECTED: torch.ones(())}
    if max_grad_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_grad_norm, norm)
    network.optimizer.step()
    return {name: loss.detach()}
