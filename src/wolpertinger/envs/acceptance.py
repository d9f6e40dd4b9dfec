"""W[i, j], the chance that a user at item i accepts item j, stored sparse: never as a dense N x N matrix."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wolpertinger.index import as_array
from wolpertinger.settings import check_memory, check_number

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

ROUNDING = 1e-9  # tolerance of sums of chances at 0 and 1


class Acceptance:
    """W[i, j] = sparse[i, j] + weight[i] * base[j] off the diagonal, and sparse[i, i] on it.

    The second term is a base rate per item, which a user at i follows to the degree weight[i].
    """

    def __init__(self, sparse: Any, base: npt.ArrayLike | None = None, weight: npt.ArrayLike | None = None) -> None:
        self.n, self._rows, self._columns, self._beyond_base = _entries(sparse)
        self.base = _per_item(base, self.n, "base", default=0.0)
        self.weight = _per_item(weight, self.n, "weight", default=1.0)

        self._starts = np.searchsorted(self._rows, np.arange(self.n))
        self._values = self._beyond_base + self._base_rate(self.base)  # W where it is stored
        self._check_chances()
        self._pairs = _PairTable(self.n, self._rows, self._columns)
        self._below_base = np.unique(self._rows[self._off_diagonal & (self._beyond_base < -ROUNDING)])

    @property
    def _off_diagonal(self) -> npt.NDArray[np.bool_]:
        return self._rows != self._columns

    def _base_rate(self, base: Array) -> Array:
        """Return the base rate's part of every stored entry."""
        return np.where(self._off_diagonal, self.weight[self._rows] * base[self._columns], 0.0)

    def _check_chances(self) -> None:
        parts = (self._values, self.base, self.weight)
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError("acceptance holds numbers that are not finite: give chances in [0, 1]")
        low = min(float(part.min()) for part in parts)
        top = max(float(self._values.max()), float(self.weight.max() * self.base.max()))
        if low < -ROUNDING or top > 1 + ROUNDING:
            raise ValueError(f"acceptance holds chances between {low:.4g} and {top:.4g}: give numbers in [0, 1]")

    @classmethod
    def of(cls, chances: Any) -> "Acceptance":
        """Convert what a user gives: a dense or scipy-sparse matrix, (sparse, base) or (sparse, base, weight)."""
        if isinstance(chances, Acceptance):
            return chances
        if isinstance(chances, tuple):
            if not 1 <= len(chances) <= 3:
                raise ValueError(f"acceptance is a tuple of {len(chances)}: give (sparse, base) or with weight")
            return cls(*chances)
        return cls(chances)

    def at(self, i: npt.ArrayLike, j: npt.ArrayLike) -> Array:
        """Return W[i, j] for pairs of states and items, broadcast."""
        i, j = np.asarray(i, dtype=np.int64), np.asarray(j, dtype=np.int64)
        stored, place = self._pairs.find(i, j)
        base_rate = self.weight.take(i) * self.base.take(j)  # the diagonal is always stored: no special case
        return np.where(stored, self._values.take(place), base_rate)

    def rows(self, i: npt.ArrayLike) -> Array:
        """Return dense rows W[i, :] for a few states (len(i), n)."""
        i = np.asarray(i, dtype=np.int64)
        dense = self.weight[i, None] * self.base[None, :]
        dense[np.arange(i.size), i] = 0.0
        for row, state in enumerate(i):
            stored = slice(*self._rows.searchsorted([state, state + 1]))
            dense[row, self._columns[stored]] = self._values[stored]
        return dense

    def dot(self, x: Array) -> Array:
        """Return W @ x."""
        stored = np.bincount(self._rows, weights=self._beyond_base * x[self._columns], minlength=self.n)
        return stored + self.weight * (self.base @ x - self.base * x)

    def column_means(self) -> Array:
        """Return the mean of every column: the chance that a random user accepts each item."""
        stored = np.bincount(self._columns, weights=self._beyond_base, minlength=self.n)
        return (stored + self.base * (self.weight.sum() - self.weight)) / self.n

    def diagonal(self) -> Array:
        """Return W[i, i]."""
        return self.at(np.arange(self.n), np.arange(self.n))

    def best(self, gain: Array) -> tuple[Array, Ids]:
        """Return max_j W[i, j] * gain[j] for every i, and its j; some gain must be >= 0, as with rewards >= 0."""
        # Off the stored entries only the base rate counts, and there the best item is the same for every row but
        # its own: so the two best are enough. Where a row does store it, the stored value is the larger one...
        by_base = self.base * gain
        first, second = np.lexsort((gain, by_base))[:-3:-1]
        items = np.where(np.arange(self.n) == first, second, first)
        values = self.weight * by_base[items]
        stored = self._values * gain[self._columns]
        top = np.maximum.reduceat(stored, self._starts)
        hits = np.flatnonzero(stored == top[self._rows])[::-1]  # reversed: the first hit of a row is written last
        column = np.empty(self.n, dtype=np.int64)
        column[self._rows[hits]] = self._columns[hits]
        better = top >= values
        values, items = np.where(better, top, values), np.where(better, column, items)
        for states in _blocks(self._below_base):  # ...but in these rows
            score = self.rows(states) * gain
            items[states] = score.argmax(axis=1)
            values[states] = score.max(axis=1)
        return values, items

    def top(self, gain: Array, m: int) -> Ids:
        """Return the m items with the largest W[i, j] * gain[j] for every i, best first (n, m)."""
        chosen = np.empty((self.n, m), dtype=np.int64)
        for states in _blocks(np.arange(self.n)):
            score = self.rows(states) * gain
            # By id first: the order of `argpartition`, which equal scores would keep, depends on numpy's SIMD level.
            part = np.sort(np.argpartition(-score, m - 1, axis=1)[:, :m], axis=1)
            order = np.argsort(-np.take_along_axis(score, part, axis=1), axis=1, kind="stable")
            chosen[states] = np.take_along_axis(part, order, axis=1)
        return chosen

    def scaled(self, median_best: float) -> "Acceptance":
        """Return these chances times one factor, so that the median of the rows' best chances is `median_best`."""
        check_number("median_best", median_best, above=True, most=1)
        best, _ = self.best(np.ones(self.n))
        if not (median := float(np.median(best))):
            raise ValueError(
                f"median_best={median_best}: the median of the rows' best chances is 0, no factor lifts it"
            )
        factor = median_best / median
        base = self.base * factor
        top_base = float(base.max() * self.weight.max())
        if top_base > 1:
            raise ValueError(f"median_best={median_best} would lift a base rate to {top_base:.3g}: give a smaller one")
        stored = np.minimum(self._values * factor, 1.0) - self._base_rate(base)
        sparse = sp.csr_array((stored, (self._rows, self._columns)), shape=(self.n, self.n))
        return Acceptance(sparse, base, self.weight)


class _PairTable:
    """A hash table of the places of sorted, distinct pairs, built and searched by numpy.

    It is faster than a binary search, whose branches no processor predicts.
    """

    def __init__(self, n: int, rows: Ids, columns: Ids) -> None:
        size = 1 << int(4 * rows.size).bit_length()  # four to eight buckets a pair
        self._mask = size - 1
        # Buckets are key % size: this stride spreads the rows over them by the golden ratio, and keeps keys distinct.
        self._stride = (n // size + 1) * size + (int(0.618 * size) | 1)
        keys = rows * self._stride + columns
        bucket = keys & self._mask
        order = np.lexsort((keys, bucket))
        counts = np.bincount(bucket, minlength=size)
        self._steps = int(counts.max()) - 1
        self._first = (np.cumsum(counts) - counts).astype(np.int32)
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)  # one more: no search ends outside
        self._place = np.append(order, 0)

    def find(self, i: Ids, j: Ids) -> tuple[npt.NDArray[np.bool_], Ids]:
        """Return which pairs are stored, and the places of those."""
        keys = i * self._stride + j
        slot = self._first.take(keys & self._mask)
        for _ in range(self._steps):  # as many as the fullest bucket needs
            slot = slot + (self._keys.take(slot) < keys)
        return self._keys.take(slot) == keys, self._place.take(slot)


def _entries(sparse: Any) -> tuple[int, Ids, Ids, Array]:
    """Return size, rows, columns and values of a square matrix, sorted, each pair once, with the whole diagonal."""
    if not sp.issparse(sparse):
        sparse = as_numbers("acceptance", sparse)
        if sparse.ndim != 2:
            raise ValueError(f"acceptance has shape {sparse.shape}: give a square matrix of at least 2 items")
    elif (kind := getattr(sparse, "dtype", np.dtype(float))).kind not in "fiub":
        raise TypeError(f"acceptance is of type {kind}: give chances in [0, 1]")
    given = sp.coo_array(sparse, dtype=np.float64)
    n = given.shape[0]
    if given.shape != (n, n) or n < 2:
        raise ValueError(f"acceptance has shape {given.shape}: give a square matrix of at least 2 items")
    every = np.arange(n)
    rows, columns = (np.concatenate([pair, every]) for pair in given.coords)
    full = sp.csr_array((np.concatenate([given.data, np.zeros(n)]), (rows, columns)), shape=(n, n))
    full.sum_duplicates()
    return n, np.repeat(every, np.diff(full.indptr)), full.indices.astype(np.int64), full.data


def _blocks(states: Ids, size: int = 512) -> Iterator[Ids]:
    """Yield a few states at a time: dense rows of all would be the N x N matrix."""
    for start in range(0, states.size, size):
        yield states[start : start + size]


def as_numbers(name: str, given: Any) -> Array:
    """Return real numbers as float64."""
    array = as_array(name, given)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} are of type {array.dtype}: give real numbers")
    check_memory(name, 8 * array.size)
    return array.astype(np.float64)


def _per_item(values: npt.ArrayLike | None, n: int, name: str, *, default: float) -> Array:
    array = np.full(n, default) if values is None else as_numbers(name, values)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}: give one number for each of the {n} items, shape ({n},)")
    return array
