"""The candidates that an exact scan keeps: enough to decide in float64, in bounded memory, whatever the row order."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import CHUNK_BYTES, Ids, Vectors, chunks
from wolpertinger.index.store import Rows
from wolpertinger.threads import divide

Distances = npt.NDArray[np.float64]
Pairs = tuple[Ids, Ids, Vectors]  # query numbers, ids, approximate distances

SAMPLED = 8  # every 8th column estimates the k-th smallest, ...
DEVIATIONS = 4  # ... plus so many standard deviations of that estimate
MAX_EXTRA_ROWS = 64  # beyond 4 k per query, that are sorted rather than left to a `Shortlist`


class Shortlist:
    """Pairs (query, id) that certainly include the k nearest of every query, collected block by block.

    With approximations off by at most e (`margin` is 2e) and t the k-th smallest of them, the k-th true distance is at
    most t + e. So a row that belongs to the k nearest has an approximation of at most t + 2e. The k-th smallest so far
    is at least t: what it drops does not belong. Where many pairs remain, as with equal rows, true distances decide
    before the end.
    """

    _smallest: Vectors
    """The k smallest approximations so far (batch, k), or all, if there were fewer."""
    _threshold: Vectors
    """Larger approximations do not belong (batch,)."""
    _kept: list[Pairs]
    _counts: Ids

    def __init__(self, store: Rows, queries: Distances, k: int, margin: Distances, width: int) -> None:
        self._store, self._queries, self._k, self._margin = store, queries, k, margin
        self._max_per_query = 2 * k + width // 4  # pairs: of all queries about 2 batch x k and a quarter of a block
        self._max_per_block = len(queries) * (2 * k + width // 64)  # pairs: with more, the k smallest are found first
        self._clear()
        # Allocated once: between the small arrays that are kept, one per block would fragment the memory.
        self._memory = np.empty(len(queries) * width, np.bool_)

    def take(self, approximate: Vectors, start: int) -> None:
        """Keep what may belong of a block of approximations (batch, at most `width`) to ids from `start` on."""
        is_first = not self._kept
        if is_first and self._take_by_estimate(approximate, start):
            return
        if is_first:
            self._lower(_smallest(approximate, self._k))
        belongs = self._belongs(approximate)
        if np.count_nonzero(belongs) <= self._max_per_block:
            row, value = self._keep(approximate, belongs, start)
            if not is_first:
                self._lower(_pad(row, value, np.inf, len(belongs)))
            self._bound_memory()
            return
        if not is_first:
            self._lower(_smallest(approximate, self._k))
        for left in range(0, approximate.shape[1], self._max_per_query):  # in parts: a pair takes 20 bytes, not 4
            piece = approximate[:, left : left + self._max_per_query]
            self._keep(piece, self._belongs(piece), start + left)
            self._bound_memory()

    def _take_by_estimate(self, approximate: Vectors, start: int) -> bool:
        """Keep what may belong of the first block by thresholds estimated from a sample of its columns, if they prove
        right: that is much faster than finding the k smallest.
        """
        estimate = _estimate_kth(approximate, self._k)
        if estimate is None or not np.isfinite(self._margin).all():
            return False
        self._set_threshold(estimate)
        belongs = self._belongs(approximate)
        counts = np.count_nonzero(belongs, axis=1)
        if counts.min() >= self._k and counts.sum() <= self._max_per_block:
            row, value = self._keep(approximate, belongs, start)
            self._lower(_pad(row, value, np.inf, len(belongs)))
            if (self._smallest.max(axis=1) <= estimate).all():  # no row that belongs was above the estimate
                self._bound_memory()
                return True
        self._clear()
        return False

    def pairs(self) -> Pairs:
        """Return the pairs that may belong as far as is known, sorted by query and id."""
        rows, ids, values = (np.concatenate(part) for part in zip(*self._kept, strict=True))
        belongs = ~(values > self._threshold[rows]) & self._store.holds(ids)
        rows, ids, values = rows[belongs], ids[belongs], values[belongs]
        if len(self._kept) == 1:
            return rows, ids, values
        order = np.argsort(rows, kind="stable")  # a query's ids are in order already
        return rows[order], ids[order], values[order]

    def _lower(self, approximate: Vectors) -> None:
        """Lower the thresholds by more approximations (batch, any)."""
        self._smallest = _smallest(np.concatenate([self._smallest, approximate], axis=1), self._k)
        if self._smallest.shape[1] == self._k:  # else fewer than k rows were seen
            self._set_threshold(self._smallest.max(axis=1))

    def _set_threshold(self, largest: Vectors) -> None:
        """Set the thresholds, given that k approximations are at most `largest` (batch,)."""
        self._threshold = _safe_threshold(largest, self._margin)

    def _clear(self) -> None:
        self._smallest = np.empty((len(self._queries), 0), np.float32)
        self._threshold = np.full(len(self._queries), np.inf, np.float32)
        self._kept = []
        self._counts = np.zeros(len(self._queries), np.int64)

    def _belongs(self, approximate: Vectors) -> npt.NDArray[np.bool_]:
        # Not "<=": NaN, from overflow, must be kept.
        drop = self._memory[: approximate.size].reshape(approximate.shape)
        np.greater(approximate, self._threshold[:, None], out=drop)
        return np.logical_not(drop, out=drop)

    def _keep(self, approximate: Vectors, belongs: npt.NDArray[np.bool_], start: int) -> tuple[Ids, Vectors]:
        row, column = np.divmod(np.flatnonzero(belongs), belongs.shape[1])
        value = approximate[row, column]
        column += start
        self._kept.append((row, column, value))
        self._counts += np.bincount(row, minlength=len(belongs))
        return row, value

    def _bound_memory(self) -> None:
        if self._counts.max() > self._max_per_query:
            self._compact()

    def _compact(self) -> None:
        """Drop pairs that no longer belong; of queries that still have many, all but the k nearest."""
        rows, ids, values = self.pairs()
        self._kept = [(rows, ids, values)]
        self._counts = np.bincount(rows, minlength=len(self._queries))
        is_long = self._counts > self._max_per_query // 2  # so that the next compaction is not soon
        if not is_long.any():
            return
        of_long = is_long[rows]
        place = np.cumsum(is_long) - 1
        nearest = decide(self._store, self._queries[is_long], place[rows[of_long]], ids[of_long], self._k)
        nearest.sort(axis=1)  # by id, like the others
        decided = np.repeat(np.flatnonzero(is_long), self._k)
        self._kept = [
            (rows[~of_long], ids[~of_long], values[~of_long]),
            (decided, nearest.ravel(), np.full(nearest.size, -np.inf, np.float32)),  # below every threshold
        ]
        self._counts[is_long] = self._k


def search_rows(store: Rows, queries: Distances, approximate: Vectors, k: int, margin: Distances) -> Ids | None:
    """Return the ids (batch, k) nearest in float64, given approximations (batch, n) to all rows with finite margins;
    None where the estimated thresholds prove wrong, or leave too many rows.

    Approximations that differ by more than the margin are in the right order: only the others need exact distances.
    """
    estimate = _estimate_kth(approximate, k)
    if estimate is None:
        return None
    found = np.flatnonzero(approximate <= _safe_threshold(estimate, margin)[:, None])
    starts = np.arange(len(queries) + 1) * approximate.shape[1]
    bounds = np.searchsorted(found, starts)
    counts = np.diff(bounds)
    if counts.min() < k or len(found) > len(queries) * (4 * k + MAX_EXTRA_ROWS):
        return None
    values = np.full((len(queries), counts.max()), np.inf, np.float32)
    values[np.arange(values.shape[1]) < counts[:, None]] = approximate.reshape(-1)[found]
    order = values.argsort(axis=1)
    values = np.take_along_axis(values, order, axis=1)
    largest = values[:, k - 1]
    if (largest > estimate).any():  # a row that belongs may be above the estimate
        return None
    belongs = values[:, 1:] <= _safe_threshold(largest, margin)[:, None]
    width = max(k, 1 + np.count_nonzero(belongs, axis=1).max())
    ids = found[np.minimum(order[:, :width] + bounds[:-1, None], len(found) - 1)] - starts[:-1, None]
    reach = _safe_threshold(values[:, : width - 1], margin[:, None])
    is_close = belongs[:, : width - 1] & (values[:, 1:width] <= reach)
    if is_close.any():
        _sort_close(store, queries, ids, is_close)
    return ids[:, :k]


def _sort_close(store: Rows, queries: Distances, ids: Ids, is_close: npt.NDArray[np.bool_]) -> None:
    """Sort runs of ids (batch, m), each close to the one before it (batch, m - 1), by distance, then id."""
    begins, belongs = np.ones(ids.shape, np.bool_), np.zeros(ids.shape, np.bool_)
    np.logical_not(is_close, out=begins[:, 1:])
    belongs[:, 1:] |= is_close
    belongs[:, :-1] |= is_close
    places = np.flatnonzero(belongs)
    rows = places // ids.shape[1]
    own, run = ids.reshape(-1)[places], np.cumsum(begins.reshape(-1)[places])
    order = np.lexsort((own, pair_distances(store, queries, rows, own), run))
    ids.reshape(-1)[places] = own[order]


def decide(store: Rows, queries: Distances, rows: Ids, ids: Ids, k: int) -> Ids:
    """Return the ids (batch, k) nearest in float64 among pairs sorted by query and id, at least k for each query."""
    bounds = np.searchsorted(rows, np.arange(len(queries) + 1))
    found = np.empty((len(queries), k), np.int64)

    def work(part: slice) -> None:
        pairs = slice(bounds[part.start], bounds[part.stop])
        found[part] = _decide(store, queries[part], rows[pairs] - part.start, ids[pairs], k)

    divide(work, len(queries), least=1 + CHUNK_BYTES // (8 * store.dim * k))
    return found


def _decide(store: Rows, queries: Distances, rows: Ids, ids: Ids, k: int) -> Ids:
    distances = _pad(rows, pair_distances(store, queries, rows, ids), np.inf, len(queries))
    padded = _pad(rows, ids, 0, len(queries))  # ids in order, padded at the end
    order = np.argsort(distances, axis=1)[:, : k + 1]  # one more: it may tie with the last
    ordered = np.take_along_axis(distances, order, axis=1)
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if tied.any():
        order[tied] = np.argsort(distances[tied], axis=1, kind="stable")[:, : k + 1]
    return np.take_along_axis(padded, order[:, :k], axis=1)


def pair_distances(store: Rows, queries: Distances, rows: Ids, ids: Ids) -> Distances:
    """Return |x[ids[j]] - queries[rows[j]]|^2 for every pair j, computed in float64 from differences."""
    distances = np.empty(len(ids))
    for pairs in chunks(len(ids), store.dim * 8):
        difference = store.take(ids[pairs]).astype(np.float64)
        difference -= queries.take(rows[pairs], axis=0)
        distances[pairs] = np.einsum("pd,pd->p", difference, difference)
    return distances


def _estimate_kth(approximate: Vectors, k: int) -> Vectors | None:
    """Estimate the k-th smallest approximation (batch,) from above, by a sample; None if there are too few."""
    sample = approximate[:, ::SAMPLED]
    expected = k * sample.shape[1] / approximate.shape[1]
    place = math.ceil(expected + DEVIATIONS * math.sqrt(expected)) + 1
    return np.partition(sample, place, axis=1)[:, place] if place < sample.shape[1] else None


def _safe_threshold(largest: Any, margin: Any) -> Any:
    """Return the least threshold that drops no row that belongs, where k approximations are at most `largest`."""
    with np.errstate(over="ignore", invalid="ignore"):  # NaN, from overflow, keeps all rows
        return np.nextafter(np.float32(largest + margin), np.float32(np.inf))


def _smallest(values: Vectors, k: int) -> Vectors:
    return np.partition(values, k - 1, axis=1)[:, :k] if k < values.shape[1] else values


def _pad(rows: Ids, values: npt.NDArray[Any], filling: float, n: int) -> npt.NDArray[Any]:
    """Lay out values of pairs sorted by row as an array (n, longest), one line per row, padded with `filling`."""
    counts = np.bincount(rows, minlength=n)
    column = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    padded = np.full((n, counts.max()), filling, values.dtype)
    padded[rows, column] = values
    return padded
