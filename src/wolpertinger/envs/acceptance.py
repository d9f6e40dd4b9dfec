"""W[i, j], the chance that a user at item i accepts item j, held sparse: no dense N x N matrix at any size."""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]


class Acceptance:
    """W[i, j] = sparse[i, j] + weight[i] * base[j] off the diagonal, and sparse[i, i] on it.

    The second term is a base rate per item, which a user at i follows to the degree weight[i].
    """

    def __init__(self, sparse: Any, base: npt.ArrayLike | None = None, weight: npt.ArrayLike | None = None) -> None:
        stored = sp.csr_array(sparse, dtype=np.float64)
        stored.sum_duplicates()  # sorts the columns too, so that `_keys` below is sorted
        self.n = stored.shape[0]
        if stored.ndim != 2 or stored.shape != (self.n, self.n) or self.n < 2:
            raise ValueError(f"acceptance has shape {stored.shape}: give a square matrix of at least 2 items")
        self.base = _per_item(base, self.n, "base", default=0.0)
        self.weight = _per_item(weight, self.n, "weight", default=1.0)

        self._rows = np.repeat(np.arange(self.n), np.diff(stored.indptr))
        self._columns = stored.indices.astype(np.int64)
        self._starts = stored.indptr[:-1]
        self._filled = np.flatnonzero(np.diff(stored.indptr))  # rows that store anything
        self._keys = self._rows * self.n + self._columns
        self._beyond_base = stored.data
        self._values = stored.data + self._base_rate(self.base)  # W where it is stored
        self._check_chances()

    def _base_rate(self, base: Array) -> Array:
        """The base rate's part of every stored entry."""
        return np.where(self._rows == self._columns, 0.0, self.weight[self._rows] * base[self._columns])

    def _check_chances(self) -> None:
        top = max(self._values.max(initial=0.0), self.weight.max() * self.base.max())
        low = min(self._values.min(initial=0.0), self.weight.min(), self.base.min())
        if not (np.isfinite(self._values).all() and low >= 0 and top <= 1 + 1e-9):
            raise ValueError(f"acceptance holds chances between {low:.4g} and {top:.4g}: give numbers in [0, 1]")

    @classmethod
    def of(cls, chances: Any) -> "Acceptance":
        """Read what a user gives: a dense or scipy-sparse matrix, or (sparse, base) or (sparse, base, weight)."""
        if isinstance(chances, Acceptance):
            return chances
        if isinstance(chances, tuple):
            if not 1 <= len(chances) <= 3:
                raise ValueError(f"acceptance is a tuple of {len(chances)}: give (sparse, base) or with weight")
            return cls(*chances)
        return cls(chances)

    def at(self, i: npt.ArrayLike, j: npt.ArrayLike) -> Array:
        """W[i, j] for pairs of states and items, broadcast."""
        i, j = np.asarray(i), np.asarray(j)
        base_rate = np.where(i == j, 0.0, self.weight[i] * self.base[j])
        if not self._keys.size:
            return base_rate
        keys = i * self.n + j
        place = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        return np.where(self._keys[place] == keys, self._values[place], base_rate)

    def rows(self, i: npt.ArrayLike) -> Array:
        """Dense rows W[i, :] for a few states (len(i), n)."""
        i = np.asarray(i, dtype=np.int64)
        dense = self.weight[i, None] * self.base[None, :]
        dense[np.arange(i.size), i] = 0.0
        for row, state in enumerate(i):
            stored = slice(*np.searchsorted(self._rows, [state, state + 1]))
            dense[row, self._columns[stored]] = self._values[stored]
        return dense

    def dot(self, x: Array) -> Array:
        """W @ x."""
        stored = np.bincount(self._rows, weights=self._beyond_base * x[self._columns], minlength=self.n)
        return stored + self.weight * (self.base @ x - self.base * x)

    def column_means(self) -> Array:
        """Mean of every column: how often a random user accepts each item."""
        stored = np.bincount(self._columns, weights=self._beyond_base, minlength=self.n)
        return (stored + self.base * (self.weight.sum() - self.weight)) / self.n

    def diagonal(self) -> Array:
        """W[i, i]."""
        return self.at(np.arange(self.n), np.arange(self.n))

    def best(self, gain: Array) -> tuple[Array, Ids]:
        """max_j W[i, j] * gain[j] for every i, and its j; needs some gain >= 0, as non-negative rewards give."""
        # Off the stored entries only the base rate counts, and there the best item is the same for every row but
        # its own: so the two best are enough. Where a row does store it, the stored value is the larger one.
        by_base = self.base * gain
        first, second = np.lexsort((gain, by_base))[:-3:-1]
        items = np.where(np.arange(self.n) == first, second, first)
        values = self.weight * by_base[items]
        if self._filled.size:
            stored = self._values * gain[self._columns]
            top = np.full(self.n, -np.inf)
            top[self._filled] = np.maximum.reduceat(stored, self._starts[self._filled])
            hits = np.flatnonzero(stored == top[self._rows])[::-1]  # reversed: the first hit of a row is written last
            column = np.zeros(self.n, dtype=np.int64)
            column[self._rows[hits]] = self._columns[hits]
            better = top >= values
            values, items = np.where(better, top, values), np.where(better, column, items)
        return values, items

    def top(self, gain: Array, m: int, block: int = 512) -> Ids:
        """The m items with the largest W[i, j] * gain[j] for every i, best first (n, m)."""
        chosen = np.empty((self.n, m), dtype=np.int64)
        for start in range(0, self.n, block):
            states = np.arange(start, min(start + block, self.n))
            score = self.rows(states) * gain
            part = np.argpartition(-score, m - 1, axis=1)[:, :m]
            order = np.argsort(-np.take_along_axis(score, part, axis=1), axis=1, kind="stable")
            chosen[states] = np.take_along_axis(part, order, axis=1)
        return chosen

    def scaled(self, median_best: float) -> "Acceptance":
        """The same chances times one factor, so that the median of the rows' best chances is `median_best`."""
        if not 0 < median_best <= 1:
            raise ValueError(f"median_best={median_best!r}: give a chance in (0, 1]")
        best, _ = self.best(np.ones(self.n))
        factor = median_best / float(np.median(best))
        base = self.base * factor
        top_base = float(base.max() * self.weight.max())
        if top_base > 1:
            raise ValueError(f"median_best={median_best} would lift a base rate to {top_base:.3g}: give a smaller one")
        stored = np.minimum(self._values * factor, 1.0) - self._base_rate(base)
        sparse = sp.csr_array((stored, (self._rows, self._columns)), shape=(self.n, self.n))
        return Acceptance(sparse, base, self.weight)


def _per_item(values: npt.ArrayLike | None, n: int, name: str, *, default: float) -> Array:
    array = np.full(n, default) if values is None else np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}: give one number for each of the {n} items, shape ({n},)")
    return array
