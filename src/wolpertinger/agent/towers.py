"""A critic that factorises, Q(s, a) = phi(s) . psi(a) + v(a) + u(s): the best action is an inner-product search."""

import math

import torch
from torch import Tensor, nn

from wolpertinger.agent.layers import hidden_layers, last_layer

WIDTH = 64  # of phi and psi
STEP = 2**-10  # vectors that differ by less in every number, where numbers are about 1, may share a memory
PRIME = 2**31 - 1
STRENGTH = 2.0  # of a memory: by how much more than the rate of learning an update may move what it says
LARGEST_MEMORY = 2**26  # rows


class Tower(nn.Module):
    """What is known of a vector: what a network makes of it, and what is remembered of it alone, if anything is."""

    def __init__(
        self,
        inputs: int,
        net_arch: list[int],
        last: nn.Linear,
        activation_fn: type[nn.Module],
        layer_norm: bool,
        memory: int,
        strength: float,
    ) -> None:
        super().__init__()
        hidden = hidden_layers(net_arch[0], net_arch[1:], activation_fn, layer_norm)
        self.network = nn.Sequential(nn.Linear(inputs, net_arch[0]), *hidden, last)
        self.memory = Memory(inputs, memory, last.out_features, strength) if memory else None

    def forward(self, vectors: Tensor) -> Tensor:
        known = self.network(vectors)
        return known if self.memory is None else known + self.memory(vectors)


class Memory(nn.Module):
    """Numbers of their own for vectors that come again and again: items, and states that are items.

    A network learns what neighbours share, and slowly what tells them apart; a row of a table per vector learns the
    latter at once. Which row is a vector's is told by a hash of its numbers (the hashing trick of recommenders), so
    that a new vector has one too, all zeros until it is learned. Two vectors may share one: give some rows to spare.
    """

    factors: Tensor
    mixer: Tensor

    def __init__(self, inputs: int, rows: int, outputs: int, strength: float = STRENGTH) -> None:
        super().__init__()
        self.strength = strength
        self.rows = nn.Parameter(torch.zeros(rows, outputs))
        self.register_buffer("factors", torch.randint(1, PRIME, (inputs,)))
        self.register_buffer("mixer", torch.randint(1, PRIME, (2,)))

    def row(self, vectors: Tensor) -> Tensor:
        """Which row is each vector's (..., inputs): (...)."""
        # Universal hashing: products of numbers below 2**31 stay within 64 bits.
        numbers = (vectors.detach() / STEP).round().long() % PRIME
        mixed = (numbers * self.factors % PRIME).sum(dim=-1) % PRIME
        return (mixed * self.mixer[0] + self.mixer[1]) % PRIME % len(self.rows)

    def forward(self, vectors: Tensor) -> Tensor:
        return self.strength * nn.functional.embedding(self.row(vectors), self.rows)


class TwoTower(nn.Module):
    """One tower reads the state, the other one the action; psi and v are one vector per action, whatever the state.

    :param width: of phi and psi. What few items are good for whom is told by few numbers, which are learned sooner and
        searched faster; many items with reasons of their own need more.
    :param state_memory: rows of a memory of states, such as the items that users come from: a count (int), or so many
        times the number of actions (float); 0: none.
    :param action_memory: rows of a memory of actions, in the same way.
    :param strength: how much faster than its rate of learning a memory changes its mind. Where luck is large beside
        what it hides, as with rare rewards, less of it averages over more tries.
    """

    def __init__(
        self,
        features_dim: int,
        dim: int,
        net_arch: list[int],
        activation_fn: type[nn.Module],
        layer_norm: bool,
        n_actions: int,
        width: int = WIDTH,
        state_memory: int | float = 0,
        action_memory: int | float = 0,
        strength: float = STRENGTH,
    ) -> None:
        super().__init__()
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise ValueError(f"width={width!r} of a two-tower critic: give a whole number of at least 1")
        if isinstance(strength, bool) or not (isinstance(strength, int | float) and 0 < strength < math.inf):
            raise ValueError(f"strength={strength!r} of a memory: give a finite number above 0")
        state_rows = _count_rows("state_memory", state_memory, n_actions)
        action_rows = _count_rows("action_memory", action_memory, n_actions)
        # Values start near 0 if one of the factors does; if both did, neither would have a gradient.
        last = nn.Linear(net_arch[-1], width + 1)
        with torch.no_grad():  # u(s) as well
            last.weight[-1].zero_()
            last.bias[-1].zero_()
        self.state_tower = Tower(features_dim, net_arch, last, activation_fn, layer_norm, state_rows, strength)
        last = last_layer(net_arch[-1], width + 1)
        self.action_tower = Tower(dim, net_arch, last, activation_fn, layer_norm, action_rows, strength)

    def forward(self, features: Tensor, inputs: Tensor) -> Tensor:
        """Values of one action per state (batch, dim), or of k (batch, k, dim): (batch,) or (batch, k)."""
        query, offset = self.query(features)
        query, offset = (query.unsqueeze(1), offset.unsqueeze(1)) if inputs.dim() == 3 else (query, offset)
        return (query * self.key(inputs)).sum(dim=-1) + offset

    def query(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(phi(s), 1) and u(s): the first one's product with an action's key, plus the second, is its value."""
        out = self.state_tower(features)
        return torch.cat([out[..., :-1], torch.ones_like(out[..., -1:])], dim=-1), out[..., -1]

    def key(self, inputs: Tensor) -> Tensor:
        """(psi(a), v(a)) of actions (..., dim): (..., width + 1)."""
        return self.action_tower(inputs)


def _count_rows(name: str, memory: int | float, n_actions: int) -> int:
    number = not isinstance(memory, bool) and isinstance(memory, int | float)
    rows = (round(memory * n_actions) if isinstance(memory, float) else memory) if number else -1
    if not 0 <= rows <= LARGEST_MEMORY:
        raise ValueError(
            f"{name}={memory!r} with {n_actions:,} actions: give rows, a whole number from 0 to {LARGEST_MEMORY:,}, or "
            "with a point how many times as many as there are actions"
        )
    return rows
