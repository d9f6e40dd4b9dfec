"""The factors of a product of actions: their levels, and the levels nearest to a point."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wolpertinger.index import as_array
from wolpertinger.settings import check_memory, check_number

Reals = npt.NDArray[np.float64]
Digits = npt.NDArray[np.int64]

MANY = 4096  # levels, in 32 kB: fewer stay in the cache
BYTES_PER_LEVEL = 64  # of one that is sorted, both ways, and embedded: with what that takes on the way


class Factor:
    """The levels (i, m) of one factor, of which an action has one. Scalar levels (m = 1) are sorted once."""

    def __init__(self, levels: Reals) -> None:
        self.levels = levels
        if self.width == 1:
            # Read upwards from a query, and downwards: equal levels come by ascending digit both ways.
            self._upward = np.argsort(levels[:, 0], kind="stable")
            self._downward = len(levels) - 1 - np.argsort(levels[::-1, 0], kind="stable")
            self._sorted = levels[self._upward, 0]
            self._in_order = bool((np.diff(levels[:, 0]) > 0).all())
            self._per_unit = _levels_per_unit(self._sorted) if self._in_order else None

    @property
    def n(self) -> int:
        """How many levels there are."""
        return len(self.levels)

    @property
    def width(self) -> int:
        """Numbers in a level."""
        return self.levels.shape[1]

    def candidates(self, k: int) -> int:
        """How many levels `nearest` looks at for each query."""
        return min(self.n, 2 * k) if self.width == 1 else self.n

    def nearest(self, queries: Reals, k: int) -> tuple[Digits, Reals]:
        """Digits and squared distances (batch, k) of the levels nearest to each query (batch, m), ties by digit."""
        if self.candidates(k) < self.n:
            return self._nearest_in_window(queries[:, 0], k)
        distances = self._distances(queries)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        return order, np.take_along_axis(distances, order, axis=1)

    def nearest_one(self, queries: Reals) -> Digits:
        """Digits (batch,) of the level nearest to each query: the first column of `nearest`."""
        if self.width == 1:
            return self._nearer_of_two(queries[:, 0])
        distances = self._distances(queries)
        if self.n == 2:  # half the time of `argmin`
            return (distances[:, 1] < distances[:, 0]).astype(np.int64)
        return distances.argmin(axis=1)

    def _distances(self, queries: Reals) -> Reals:
        """From each query to every level, squared (batch, i)."""
        # The inner loop is over the more of them: over two levels, 1,280 queries of two numbers took twice as long.
        is_turned = self.n < len(queries)
        outer, inner = (self.levels, queries) if is_turned else (queries, self.levels)
        distances = (outer[:, :1] - inner[:, 0]) ** 2
        for column in range(1, self.width):
            distances += (outer[:, column, None] - inner[:, column]) ** 2
        return distances.T if is_turned else distances

    def _nearer_of_two(self, queries: Reals) -> Digits:
        """The same for scalar levels, from the one on each side of the query: O(log i)."""
        below = self._even_below(queries)
        if below is None:
            above = self._sorted.searchsorted(queries)
            below = np.maximum(above - 1, 0)
            np.minimum(above, self.n - 1, out=above)  # beyond the first level or the last it ties with itself
        else:
            above = below + 1
        gap = (queries - self._sorted.take(below)) ** 2
        gap -= (queries - self._sorted.take(above)) ** 2
        if self._in_order:  # there is nothing to look up, in memory that is far away
            return np.where(gap <= 0, below, above)
        lower, upper = self._downward.take(below), self._upward.take(above)
        return np.where(gap < 0, lower, np.where(gap > 0, upper, np.minimum(lower, upper)))

    def _even_below(self, queries: Reals) -> Digits | None:
        """Levels (batch,) below the queries, or at them, such that the next ones are not below; None if unknown.

        Where levels are evenly spaced there is no need to search them: among a million, in memory that a training step
        has left cold, that is most of a lookup (64 queries: 153 us in a step, 26 without one).
        """
        if self._per_unit is None:
            return None
        below = ((queries - self._sorted[0]) * self._per_unit).clip(0, self.n - 2).astype(np.int64)
        fits = (self._sorted.take(below) <= queries) & (queries <= self._sorted.take(below + 1))
        return below if fits.all() else None

    def _nearest_in_window(self, queries: Reals, k: int) -> tuple[Digits, Reals]:
        """The same for many scalar levels, from the k on each side of the query: O(log i + k)."""
        above = np.searchsorted(self._sorted, queries)[:, None] + np.arange(k)
        below = above[:, :1] - 1 - np.arange(k)
        position = np.concatenate([below, above], axis=1)
        outside = (position < 0) | (position >= self.n)
        position[outside] = 0
        distances = (queries[:, None] - self._sorted[position]) ** 2
        distances[outside] = np.inf
        digits = np.concatenate([self._downward[position[:, :k]], self._upward[position[:, k:]]], axis=1)
        order = smallest(distances, k, ties=lambda rows: [digits[rows]])
        return np.take_along_axis(digits, order, axis=1), np.take_along_axis(distances, order, axis=1)


def _levels_per_unit(levels: Reals) -> float | None:
    """How many ascending levels there are in a unit, if they are many and evenly spaced; else None."""
    if len(levels) < MANY:
        return None
    with np.errstate(all="ignore"):  # levels at the ends of float64 give no number
        per_unit = float((len(levels) - 1) / (levels[-1] - levels[0]))
        away = np.abs((levels - levels[0]) * per_unit - np.arange(len(levels))).max()
    return per_unit if away < 1e-3 else None  # between such levels a guess is all but always right


def smallest(values: Reals, k: int, ties: Callable[[npt.NDArray[np.bool_]], list[npt.NDArray[Any]]]) -> Digits:
    """Columns (batch, k) of the k smallest values of each row, sorted; equal ones by `ties(rows)`, keys first to last.

    The keys are only asked for where they are needed. Runs that are sorted already are merged, not sorted again.
    """
    order = np.argsort(values, axis=1, kind="stable")[:, : k + 1]
    ranked = np.take_along_axis(values, order, axis=1)
    tied = ((ranked[:, 1:] == ranked[:, :-1]) & np.isfinite(ranked[:, 1:])).any(axis=1)
    if tied.any():
        order[tied] = np.lexsort([*reversed(ties(tied)), values[tied]], axis=1)[:, : k + 1]
    return order[:, :k]


def check_levels(number: int, levels: npt.ArrayLike) -> Reals:
    """The levels of one factor as a read-only (i, m)."""
    array = as_array(f"the levels of factor {number}", levels)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"factor {number} has levels of type {array.dtype}: give real numbers")
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise ValueError(
            f"factor {number} has levels of shape {array.shape}: give (i,) or (i, m), with at least one level"
        )
    check_memory(f"factor {number} of {len(array):,} levels", BYTES_PER_LEVEL * array.size)
    reals = array.astype(np.float64).reshape(len(array), -1)
    with np.errstate(over="ignore"):
        bad = ~np.isfinite(reals.astype(np.float32)).all(axis=1)
    if bad.any():
        raise ValueError(f"factor {number} has {bad.sum()} levels that are not finite (first: level {bad.argmax()})")
    reals.flags.writeable = False
    return reals


def even_levels(low: float, high: float, count: int) -> Reals:
    """Evenly spaced levels (count,), two at least, both ends among them; refused if they do not fit the memory."""
    check_number("levels", count, least=2, whole=True)
    check_memory(f"levels={count:,}", BYTES_PER_LEVEL * int(count))
    return np.linspace(low, high, int(count))


def share_factors(levels: list[Reals]) -> list[Factor]:
    """One Factor per different array: equal factors share it, and are looked up together."""
    distinct: dict[tuple[tuple[int, ...], bytes], Factor] = {}
    factors = []
    for array in levels:
        key = (array.shape, hashlib.sha256(array.data).digest())
        if key not in distinct:
            distinct[key] = Factor(array)
        factors.append(distinct[key])
    return factors


class FactorGroup(NamedTuple):
    """Factors with the same levels, which are looked up together."""

    factor: Factor
    size: int
    numbers: Digits | slice
    """Which of the factors they are."""
    columns: Digits | slice
    """The coordinates that they take up in an action's vector."""


def group_factors(factors: list[Factor]) -> list[FactorGroup]:
    """The factors by their levels."""
    starts = np.cumsum([0, *(factor.width for factor in factors)])
    groups = []
    for factor in dict.fromkeys(factors):
        numbers = np.flatnonzero([other is factor for other in factors])
        columns = (starts[numbers][:, None] + np.arange(factor.width)).ravel()
        groups.append(FactorGroup(factor, len(numbers), as_slice(numbers), as_slice(columns)))
    return groups


def as_slice(places: Digits) -> Digits | slice:
    """Places that follow each other as a slice, which takes a view where they would take a copy."""
    first, last = int(places[0]), int(places[-1]) + 1
    return slice(first, last) if last - first == len(places) else places
