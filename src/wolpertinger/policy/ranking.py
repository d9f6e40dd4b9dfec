"""The candidates of a batch of states in the order of their values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wolpertinger.policy.candidates import Candidates
from wolpertinger.policy.states import States


@dataclass(frozen=True)
class Best:
    """The m best of the candidates that were looked at, best first; among equal values the earlier one."""

    actions: Tensor
    """(batch, m, ...)."""
    vectors: Tensor
    """(batch, m, dim)."""
    values: Tensor
    """(batch, m)."""
    places: Tensor
    """Among all candidates (batch, m)."""
    mean: Tensor
    """Of all candidates' values (batch,)."""
    count: int
    """Candidates looked at, per state."""

    @classmethod
    def of(cls, block: Tensor, vectors: Tensor, values: Tensor, mean: Tensor, m: int) -> "Best":
        """The best of one block: each state's own candidates (batch, k, ...), or those that all share (k, ...)."""
        found, places = largest(values, m)
        if vectors.dim() == 2:
            return cls(block[places], vectors[places], found, places, mean, len(block))
        rows = _rows(places)
        return cls(block[rows, places], vectors[rows, places], found, places, mean, block.shape[1])

    def merge(self, later: "Best", m: int) -> "Best":
        """The m best of the candidates of both, or all of them if they are fewer."""
        count, ours, theirs = self.count + later.count, vars(self), {**vars(later), "places": later.places + self.count}
        both = {name: torch.cat([ours[name], theirs[name]], dim=1) for name in ("actions", "vectors", "places")}
        values, chosen = largest(torch.cat([self.values, later.values], dim=1), m)
        rows = _rows(chosen)
        mean = (self.count * self.mean + later.count * later.mean) / count
        return Best(values=values, mean=mean, count=count, **{name: part[rows, chosen] for name, part in both.items()})


def largest(values: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """The m largest values of each row and their places, the largest first, ties by place."""
    if m == 1:
        found = values.max(dim=1, keepdim=True)
        return found.values, found.indices
    ordered = values.sort(dim=1, descending=True, stable=True)
    return ordered.values[:, :m], ordered.indices[:, :m]


def _rows(places: Tensor) -> Tensor:
    return torch.arange(len(places), device=places.device).unsqueeze(1)


class Ranking:
    """The best candidates of each state of a batch, best first.

    It scores when its values are asked for, or when there is a choice: the only candidate of a state needs no critic.
    """

    def __init__(self, states: States, candidates: Candidates, score: Callable[[Candidates], Best]) -> None:
        self.states, self.candidates, self._score = states, candidates, score

    @classmethod
    def join(cls, parts: Sequence["Ranking"], states: States) -> "Ranking":
        """One ranking for the states of all parts, which have been scored."""
        joined = reduce(_append, (part._best for part in parts))
        return cls(states, replace(parts[0].candidates, actions=joined.actions), lambda _: joined)

    def scored(self) -> "Ranking":
        """The same, its candidates scored and let go."""
        return Ranking.join([self], self.states)

    @cached_property
    def _best(self) -> Best:
        return self._score(self.candidates)

    @property
    def actions(self) -> Tensor:
        """Ids (batch, top) or digits (batch, top, d)."""
        only = self.candidates.only
        return self._best.actions if only is None else only

    @property
    def vectors(self) -> Tensor:
        """Of the actions (batch, top, dim)."""
        return self._best.vectors

    @property
    def values(self) -> Tensor:
        """Of the actions (batch, top)."""
        return self._best.values

    @property
    def mean(self) -> Tensor:
        """Of all candidates' values (batch,)."""
        return self._best.mean

    @property
    def places(self) -> Tensor:
        """Where each action stood among the candidates (batch, top)."""
        return self._best.places

    @property
    def is_nearest(self) -> Tensor | None:
        """Whether the best action is the nearest one (batch,); None where candidates come in another order."""
        return self.places[:, 0] == 0 if self.candidates.nearest_first else None

    def distances(self, proto: Tensor) -> Tensor:
        """From points (batch, dim) to each action (batch, top); infinite where there are fewer."""
        return (self.vectors - proto.unsqueeze(1)).norm(dim=-1).masked_fill(self.values.isneginf(), torch.inf)

    def order_found(self, proto: Tensor) -> Tensor:
        """The columns (batch, top) in the order that the candidates were found in; by distance, if in no order."""
        return (self.places if self.candidates.is_ordered else self.distances(proto)).argsort(dim=1, stable=True)

    def sources(self) -> np.ndarray:
        """Who found each action, text (batch, top)."""
        return self.candidates.sources(self.places.cpu().numpy())


def _append(ours: Best, theirs: Best) -> Best:
    """The best of two batches of states."""
    names = [name for name in vars(ours) if name != "count"]
    tensors: dict[str, Any] = {name: torch.cat([getattr(ours, name), getattr(theirs, name)]) for name in names}
    return Best(count=ours.count, **tensors)
