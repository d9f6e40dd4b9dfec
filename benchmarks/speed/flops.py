"""How much arithmetic a training step is: the least time it can take at a given rate of matrix products."""

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Networks:
    """Sizes of an agent's networks. Only matrix products count: a multiply and an add are two operations."""

    features: int
    """Numbers in a state."""
    dim: int
    """Numbers in an action's vector."""
    actor: tuple[int, ...]
    critic: tuple[int, ...]
    interaction: bool = False
    critics: int = 1

    @property
    def state_part(self) -> int:
        """The critic's first layer on one state: shared by all of its candidates."""
        return 2 * self.critics * self._factors * self.features * self.critic[0]

    @property
    def action_part(self) -> int:
        """The critic's first layer on one action."""
        return 2 * self.critics * self._factors * self.dim * self.critic[0]

    @property
    def rest(self) -> int:
        """The critic's later layers on one action, the last one of a single output."""
        return 2 * self.critics * _products((*self.critic, 1))

    @property
    def proposal(self) -> int:
        """The actor on one state."""
        return 2 * _products((self.features, *self.actor, self.dim))

    @property
    def _factors(self) -> int:
        return 2 if self.interaction else 1  # products of state and action take a second matrix each

    def rank(self, states: int, k: int) -> int:
        """Values of k actions in each state, the state's part once per state."""
        return states * (self.state_part + k * (self.action_part + self.rest))

    def choose(self, states: int, k: int) -> int:
        """Algorithm 1: a proposal and k values in each state."""
        return states * self.proposal + self.rank(states, k)

    def update(self, batch: int, k: int, gradient_at: str = "proto") -> int:
        """Lines 13 to 15 of Algorithm 2: target, critic's gradient, actor's gradient."""
        value = self.state_part + self.action_part + self.rest
        # Backwards, weights cost as much as the forward pass, and so do inputs, which the first layer does not need.
        critic = batch * (value + value + self.rest)
        # The actor's loss goes through the critic down to the action, and needs no gradient of the critic's weights.
        first = 2 * self.features * self.actor[0]
        actor = batch * (self.proposal + value + self.action_part + self.rest + 2 * self.proposal - first)
        again = self.rank(batch, k) if gradient_at == "action" else 0
        return self.choose(batch, k) + critic + actor + again

    def step(self, batch: int, k: int, gradient_at: str = "proto") -> int:
        """One state acted in, one update."""
        return self.choose(1, k) + self.update(batch, k, gradient_at)


def _products(widths: tuple[int, ...]) -> int:
    return sum(inputs * outputs for inputs, outputs in pairwise(widths))
