"""The critic's values of many actions per state, near the speed of the matrix products they are made of.

Between two layers nothing larger than a block is kept, and what states or actions have in common is computed once.
None of it records gradients.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol

import torch
from torch import Tensor

from wolpertinger.networks import Critic

BLOCK = 1536  # candidates scored together: their hidden layers stay in the cache


class StateValues(Protocol):
    """One network of the critic in a batch of states."""

    shared_from: int
    """Actions that all states share, from which on `of_shared` costs less than a copy for each state."""

    def __call__(self, states: slice | Tensor, vectors: Tensor) -> Tensor:
        """Values (n, m) of actions (n, m, dim) in these n states."""

    def of_shared(self, vectors: Tensor) -> Tensor:
        """Values (batch, m) of the same actions (m, dim) in every state."""


@dataclass(frozen=True)
class Scores:
    """The values of a batch's candidates."""

    values: Tensor
    """(batch, k); -inf where a candidate cannot win."""
    mean: Tensor
    """Of each state's candidates (batch,)."""


class Scorer(Protocol):
    """Scores actions by a critic: k per state (batch, k, dim), or the same k for all states (k, dim)."""

    def __call__(self, critic: Critic, features: Tensor, vectors: Tensor) -> Scores: ...


def in_own_precision(work: Callable[..., Any]) -> Callable[..., Any]:
    """`work(critic, features, vectors, ...)` without gradients and in the critic's own precision: results are written
    to memory of ours, which knows nothing of `torch.autocast`.
    """

    @wraps(work)
    def wrapper(critic: Critic, features: Tensor, vectors: Tensor, *args: Any) -> Any:
        own = critic.scale.middle.dtype
        with torch.inference_mode(False), torch.no_grad(), torch.autocast(features.device.type, enabled=False):
            return work(critic, features.to(own), vectors.to(own), *args)

    return wrapper


def score_exactly(critic: Critic, features: Tensor, vectors: Tensor) -> Scores:
    """Score every action."""
    values = evaluate(critic, features, vectors)
    return Scores(values, values.mean(dim=1))


@in_own_precision
def evaluate(critic: Critic, features: Tensor, vectors: Tensor) -> Tensor:
    """The least of the networks' values of k actions per state (batch, k, dim), or of the same for all (k, dim):
    (batch, k).
    """
    return Values([network.in_states(features, critic.scale) for network in critic.networks], features)(vectors)


@in_own_precision
def evaluate_pairs(critic: Critic, features: Tensor, vectors: Tensor, states: Tensor) -> Tensor:
    """The same of pairs: one action (n, dim) in each of `states` (n,), numbers of rows of `features`: (n,)."""
    networks = [network.in_states(features, critic.scale) for network in critic.networks]
    return Values(networks, features).of_each(vectors.unsqueeze(1), states).squeeze(1)


@in_own_precision
def evaluate_shared(critic: Critic, features: Tensor, vectors: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The same by two towers, whose keys of the distinct actions (m, dim) are made once: of blocks of pairs, a row of
    `features` and a row of `vectors` each, (n,) and (n,): all their values side by side.
    """
    inputs, found = critic.scale.to_inputs(vectors), []
    for network in critic.networks:
        query, offset = network.query(features)
        keys = torch.cat([network.key(part) for part in torch.split(inputs, BLOCK)])
        parts = ((query[state] * keys[action]).sum(dim=-1) + offset[state] for state, action in pairs)
        found.append(torch.cat(list(parts)))
    return _least(found)


class Values:
    """The least of several networks' values in a batch of states, of any actions, block by block."""

    def __init__(self, networks: list[Any], features: Tensor, block: int = BLOCK) -> None:
        self._networks: list[StateValues] = networks
        self._features, self._block = features, block

    def __call__(self, vectors: Tensor) -> Tensor:
        """Values (batch, m) of actions (batch, m, dim), or of the same ones for all states (m, dim)."""
        if vectors.dim() == 3:
            return self.of_each(vectors)
        if len(vectors) < max(network.shared_from for network in self._networks):
            return self.of_each(vectors.expand(len(self._features), *vectors.shape))
        return self.of_shared(vectors)

    def of_each(self, vectors: Tensor, states: Tensor | None = None) -> Tensor:
        """Values (n, m) of m actions (n, m, dim) in each state, or in each of `states` (n,), by number."""
        found = self._features.new_empty(vectors.shape[:2])
        batch, k = found.shape
        for rows, columns in _blocks(batch, k, _even(batch * k, self._block)):
            chosen = rows if states is None else states[rows]
            found[rows, columns] = _least([network(chosen, vectors[rows, columns]) for network in self._networks])
        return found

    def of_shared(self, vectors: Tensor) -> Tensor:
        """Values (batch, m) of the same m actions (m, dim) in every state."""
        found = self._features.new_empty(len(self._features), len(vectors))
        step = _even(len(vectors), self._block)
        for columns in (slice(start, start + step) for start in range(0, len(vectors), step)):
            found[:, columns] = _least([network.of_shared(vectors[columns]) for network in self._networks])
        return found


def _even(n: int, most: int) -> int:
    """The size of the fewest blocks of at most `most` that n come in, all about as large."""
    return math.ceil(n / math.ceil(n / most)) if n else 1


def _blocks(batch: int, k: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of blocks that together cover (batch, k), of at most about `size` entries each."""
    step = max(1, size // max(1, k))
    for row in range(0, batch, step):
        for column in range(0, k, size):
            yield slice(row, row + step), slice(column, column + size)


def _least(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).amin(dim=0)
