"""Allowed levels of each factor: any combination of them may be executed, and none has to be listed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.actions.allowed import Actions, Allowed, Chosen, Vectors

MOST = 2**62  # that a count says


@dataclass(frozen=True)
class Levels:
    """What one state allows of a product: for each factor, the numbers of its allowed levels."""

    of: Sequence[npt.ArrayLike]


class AllowedLevels(Allowed):
    """The allowed levels of a batch of states: those of each state's factors, one after the other, ascending.

    `offsets` (batch * d + 1) says where each factor's begin, `sizes` (d,) how many levels there are, allowed or not.
    """

    form = "levels"
    vectors = None

    def __init__(self, levels: Actions, offsets: Actions, sizes: Actions, has_ids: bool) -> None:
        self.levels, self.offsets, self.sizes, self.has_ids = levels, offsets, sizes, has_ids

    @classmethod
    def of_states(cls, rows: Sequence[Sequence[Actions]], sizes: Actions, has_ids: bool) -> "AllowedLevels":
        """From the allowed levels of each factor of each state."""
        parts = [levels for row in rows for levels in row]
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        return cls(np.concatenate(parts), offsets, sizes, has_ids)

    def __len__(self) -> int:
        return (len(self.offsets) - 1) // len(self.sizes)

    @property
    def level_counts(self) -> Actions:
        """Allowed levels (batch, d)."""
        return np.diff(self.offsets).reshape(len(self), -1)

    @property
    def counts(self) -> Actions:
        """Allowed combinations per state (batch,), 2**62 where they are more."""
        return np.minimum(self.level_counts.astype(np.float64).prod(axis=1), MOST).astype(np.int64)

    def factors(self, number: int) -> list[Actions]:
        """The allowed levels of each factor in one state."""
        first = number * len(self.sizes)
        return [self.levels[start:end] for start, end in pairwise(self.offsets[first : first + len(self.sizes) + 1])]

    def rows(self, chosen: Chosen) -> "AllowedLevels":
        numbers = np.arange(len(self))[chosen].tolist()
        if not numbers:
            return AllowedLevels(self.levels[:0], self.offsets[:1], self.sizes, self.has_ids)
        return self.of_states([self.factors(number) for number in numbers], self.sizes, self.has_ids)

    def listed(self) -> Allowed:
        """All combinations, in the order of their ids."""
        grids = (np.meshgrid(*self.factors(number), indexing="ij") for number in range(len(self)))
        return Allowed.of_rows([self._joined(np.stack([part.ravel() for part in grid], axis=-1)) for grid in grids])

    def holds(self, actions: Actions) -> npt.NDArray[np.bool_]:
        digits = self._digits(actions)
        slot = np.arange(len(self.offsets) - 1).reshape(len(self), 1, -1)
        most = int(self.sizes.max())
        keys = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets)) * most + self.levels
        wanted = slot * most + digits
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return (keys[place] == wanted).all(axis=-1)

    def sample(self, rng: np.random.Generator) -> Actions:
        return self._joined(self._draw(rng, 1)[:, 0])

    def thin(self, rng: np.random.Generator, most: int) -> Allowed:
        drawn, counts = self._joined(self._draw(rng, most)), self.counts
        few = {
            number: self.rows(np.array([number])).listed().actions for number in np.flatnonzero(counts <= most).tolist()
        }
        return Allowed.of_rows([few.get(number, own) for number, own in enumerate(drawn)])

    def pack(self) -> list[npt.NDArray[np.int64]]:
        counts = self.level_counts
        return [np.concatenate([counts[number], *self.factors(number)]) for number in range(len(self))]

    def unpack(self, packed: Sequence[npt.NDArray[Any]], vectors: Sequence[Vectors] | None = None) -> "AllowedLevels":
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
        counts = np.diff(self.offsets)[slots]
        places = np.arange(counts.max())
        return self.levels[self.offsets[slots, None] + np.where(places < counts[:, None], places, 0)], counts

    def _draw(self, rng: np.random.Generator, n: int) -> Actions:
        """Digits (batch, n, d)."""
        counts = self.level_counts[:, None]
        places = rng.integers(counts, size=(len(self), n, len(self.sizes)))
        return self.levels[self.offsets[:-1].reshape(len(self), 1, -1) + places]

    def _digits(self, actions: Actions) -> Actions:
        return np.stack(np.unravel_index(actions, self.sizes.tolist()), axis=-1) if self.has_ids else actions

    def _joined(self, digits: Actions) -> Actions:
        """Digits (..., d) in the form of the set's actions."""
        if not self.has_ids:
            return digits
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(digits, -1, 0)), self.sizes.tolist()))
