"""Allowed levels of each factor: any combination of them may be executed, and none has to be listed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.actions.allowed import Actions, Allowed, Chosen, Vectors
from wolpertinger.settings import check_kind

MOST = 2**62  # that a count says


@dataclass(frozen=True)
class Levels:
    """What one state allows of a product: for each factor, the numbers of its allowed levels."""

    of: Sequence[npt.ArrayLike]

    def __post_init__(self) -> None:
        accepted = "for each factor the numbers of its allowed levels, [[0, 1], [2]]"
        check_kind("of", self.of, list | tuple | np.ndarray, accepted)


class AllowedLevels(Allowed):
    """The allowed levels of a batch of states: those of each state's factors, one after the other, ascending.

    `starts` (batch * d + 1) says where each factor's begin, `sizes` (d,) how many levels there are, allowed or not.
    """

    form = "levels"
    own_vectors = None

    def __init__(self, levels: Actions, starts: Actions, sizes: Actions, has_ids: bool) -> None:
        self.levels, self.starts, self.sizes, self.has_ids = levels, starts, sizes, has_ids

    @classmethod
    def of_states(cls, rows: Sequence[Sequence[Actions]], sizes: Actions, has_ids: bool) -> "AllowedLevels":
        """From the allowed levels of each factor of each state."""
        parts = [levels for row in rows for levels in row]
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        return cls(np.concatenate(parts), offsets, sizes, has_ids)

    def __len__(self) -> int:
        return (len(self.starts) - 1) // len(self.sizes)

    @property
    def level_counts(self) -> Actions:
        """Allowed levels (batch, d)."""
        return np.diff(self.starts).reshape(len(self), -1)

    @cached_property
    def counts(self) -> Actions:
        """Allowed combinations per state (batch,), 2**62 where they are more."""
        return np.minimum(self.level_counts.astype(np.float64).prod(axis=1), MOST).astype(np.int64)

    def factors(self, number: int) -> list[Actions]:
        """The allowed levels of each factor in one state."""
        first = number * len(self.sizes)
        return [self.levels[start:end] for start, end in pairwise(self.starts[first : first + len(self.sizes) + 1])]

    def rows(self, chosen: Chosen) -> "AllowedLevels":
        numbers = np.arange(len(self))[chosen].tolist()
        if not numbers:
            return AllowedLevels(self.levels[:0], self.starts[:1], self.sizes, self.has_ids)
        return self.of_states([self.factors(number) for number in numbers], self.sizes, self.has_ids)

    def listed(self) -> Allowed:
        """All combinations, in the order of their ids."""
        grids = (np.meshgrid(*self.factors(number), indexing="ij") for number in range(len(self)))
        return Allowed([self._joined(np.stack([part.ravel() for part in grid], axis=-1)) for grid in grids])

    def holds(self, actions: Sequence[Actions] | Actions) -> list[npt.NDArray[np.bool_]]:
        pairs = ((self._digits(own), self.factors(number)) for number, own in enumerate(actions))
        return [
            np.logical_and.reduce([np.isin(digit, own) for digit, own in zip(digits.T, levels, strict=True)])
            for digits, levels in pairs
        ]

    def sample(self, rng: np.random.Generator) -> Actions:
        return self._joined(self._draw(rng, 1)[:, 0])

    def thin(self, rng: np.random.Generator, most: int) -> Allowed:
        drawn, counts = self._joined(self._draw(rng, most)), self.counts
        few = {
            number: self.rows(np.array([number])).listed().actions for number in np.flatnonzero(counts <= most).tolist()
        }
        return Allowed([few.get(number, own) for number, own in enumerate(drawn)])

    def pack(self) -> list[npt.NDArray[np.int64]]:
        counts = self.level_counts
        return [np.concatenate([counts[number], *self.factors(number)]) for number in range(len(self))]

    def unpack(
        self, packed: Sequence[npt.NDArray[Any]], own_vectors: Sequence[Vectors] | None = None
    ) -> "AllowedLevels":
        d = len(self.sizes)
        whole = [row.astype(np.int64) for row in packed]
        rows = [np.split(row[d:], np.cumsum(row[: d - 1])) for row in whole]
        return self.of_states(rows, self.sizes, self.has_ids)

    def only(self, actions: Actions, vectors: Vectors | None = None) -> "AllowedLevels":
        digits = self._digits(actions)
        return AllowedLevels(digits.ravel(), np.arange(digits.size + 1), self.sizes, self.has_ids)

    def padded(self, factor: int) -> tuple[Actions, Actions]:
        """One factor's allowed levels (batch, most), and how many of them are (batch,); the rest repeats the first."""
        slots = np.arange(len(self)) * len(self.sizes) + factor
        counts = np.diff(self.starts)[slots]
        places = np.arange(counts.max())
        return self.levels[self.starts[slots, None] + np.where(places < counts[:, None], places, 0)], counts

    def _draw(self, rng: np.random.Generator, n: int) -> Actions:
        """Digits (batch, n, d)."""
        counts = self.level_counts[:, None]
        places = rng.integers(counts, size=(len(self), n, len(self.sizes)))
        return self.levels[self.starts[:-1].reshape(len(self), 1, -1) + places]

    def _digits(self, actions: Actions) -> Actions:
        return np.stack(np.unravel_index(actions, self.sizes.tolist()), axis=-1) if self.has_ids else actions

    def _joined(self, digits: Actions) -> Actions:
        """Digits (..., d) in the form of the set's actions."""
        if not self.has_ids:
            return digits
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(digits, -1, 0)), self.sizes.tolist()))
