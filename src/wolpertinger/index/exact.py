"""Exact nearest neighbours by a scan: a float32 matrix product proposes, float64 distances decide."""

import threading
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from wolpertinger.index.base import CHUNK_BYTES, Ids, Vectors, check_k, check_queries, chunks
from wolpertinger.index.store import Store, as_store
from wolpertinger.threads import divide

Distances = npt.NDArray[np.float64]

BLOCK_BYTES = 1 << 24  # of approximate distances at a time
LARGEST_SQUARE = 1e37  # squared distances beyond this may overflow float32


class ExactIndex:
    """Exact k nearest rows of a store or a table, ties by id."""

    def __init__(self, vectors: npt.ArrayLike | Store) -> None:
        self._store = as_store(vectors)
        self._version = -1
        self._centre = _centre(self._store)
        self._norms = torch.empty(0)
        self._radius = 0.0
        self._lock = threading.Lock()
        self._catch_up()

    @property
    def n(self) -> int:
        """Rows that are there."""
        return self._store.n

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self._store.dim

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Ids (batch, k) of the rows nearest to each query (batch, dim), by L2 distance, ties by id."""
        k = check_k(k, self.n)
        points = check_queries(queries, self.dim).astype(np.float64)
        self._catch_up()
        found = np.empty((len(points), k), np.int64)
        step = max(1, BLOCK_BYTES // (4 * k))  # so many queries that the k best of each are no larger than a block
        for start in range(0, len(points), step):
            found[start : start + step] = self._search(points[start : start + step], k)
        return found

    def _catch_up(self) -> None:
        """Take in what was added to the store and removed from it since the last search."""
        with self._lock:
            if self._version != self._store.version:
                self._take_in()

    def _take_in(self) -> None:
        norms = _squared_norms(self._store, self._centre, start=len(self._norms))
        self._radius = max(self._radius, float(np.sqrt(norms.max(initial=0.0))))
        with np.errstate(over="ignore"):  # such tables are scanned in float64, see _error_bound
            self._norms = torch.cat([self._norms, torch.from_numpy(norms.astype(np.float32))])
        self._norms[torch.from_numpy(self._store.removed)] = torch.inf
        self._version = self._store.version

    def _search(self, queries: Distances, k: int) -> Ids:
        rows, ids = self._shortlist(queries, k)
        bounds = np.searchsorted(rows, np.arange(len(queries) + 1))
        found = np.empty((len(queries), k), np.int64)

        def decide(part: slice) -> None:
            first, last = bounds[part.start], bounds[part.stop]
            own = rows[first:last], ids[first:last]
            found[part] = self._decide(queries[part], own[0] - part.start, own[1], k)

        divide(decide, len(queries), least=1 + CHUNK_BYTES // (8 * self.dim * k))
        return found

    def _decide(self, queries: Distances, rows: Ids, ids: Ids, k: int) -> Ids:
        """The k nearest of each query's shortlist, by distances in float64."""
        distances = _pad(rows, squared_distances(self._store, queries, rows, ids), np.inf, len(queries))
        padded = _pad(rows, ids, 0, len(queries))  # ids ascending, padded at the end
        order = np.argsort(distances, axis=1)[:, : k + 1]  # one more: it may tie with the last
        ordered = np.take_along_axis(distances, order, axis=1)
        tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if tied.any():  # a stable sort breaks ties by id, and takes 4 times as long
            order[tied] = np.argsort(distances[tied], axis=1, kind="stable")[:, : k + 1]
        return np.take_along_axis(padded, order[:, :k], axis=1)

    def _shortlist(self, queries: Distances, k: int) -> tuple[Ids, Ids]:
        """Pairs (query, id), sorted, among which the k nearest of every query are for certain.

        With approximations off by at most e, the k-th smallest of them, t, says that the k-th true distance is at
        most t + e. So a row that belongs has an approximation of at most t + 2e. One pass over the table in blocks:
        the k-th smallest so far is at least t, so what it drops does not belong.
        """
        with np.errstate(over="ignore"):  # such queries have an infinite margin
            centred = (queries - self._centre).astype(np.float32)
        margin = 2 * self._error_bound(centred)
        smallest = np.empty((len(queries), 0), np.float32)
        kept: list[tuple[Ids, Ids, Vectors]] = []
        step = max(1, BLOCK_BYTES // (4 * len(queries)))
        # Made once: made for each block, between the small arrays that are kept, they left holes of 5 MB a block.
        memory = torch.empty(len(queries) * min(step, self._store.size))
        dropped = np.empty(len(memory), np.bool_)
        for block in self._store.blocks(step):
            approximate = self._approximate(centred, block, memory)
            if not kept:
                threshold = _threshold(_smallest(approximate, k), k, margin)
            # Not "<=": NaN, from overflow, must stay in the list.
            drop = dropped[: approximate.size].reshape(approximate.shape)
            np.greater(approximate, threshold[:, None], out=drop)
            row, column = np.divmod(np.flatnonzero(np.logical_not(drop, out=drop)), approximate.shape[1])
            value = approximate[row, column]
            kept.append((row, column + block.start, value))
            smallest = _smallest(np.concatenate([smallest, _pad(row, value, np.inf, len(queries))], axis=1), k)
            threshold = _threshold(smallest, k, margin)
        rows, ids, values = (np.concatenate(part) for part in zip(*kept, strict=True))
        belongs = ~(values > threshold[rows]) & self._store.holds(ids)
        rows, ids = rows[belongs], ids[belongs]
        order = np.argsort(rows, kind="stable") if len(kept) > 1 else slice(None)
        return rows[order], ids[order]

    def _approximate(self, centred: Vectors, block: slice, memory: torch.Tensor) -> Vectors:
        """|x|^2 - 2 x.q, which orders as |x - q|^2 does, for a block of rows x: (batch, rows), in the given memory."""
        table = _as_tensor(self._store.rows(block))
        if self._centre.any():
            table = table - torch.from_numpy(self._centre.astype(np.float32))
        result = memory[: len(centred) * len(table)].view(len(centred), len(table))
        torch.addmm(self._norms[block], torch.from_numpy(centred), table.T, alpha=-2, out=result)
        return result.numpy()

    def _error_bound(self, centred: Vectors) -> Distances:
        """How far an approximation may be from the distance that decides, per query; infinite where it may overflow.

        A product of dim terms in any order is off by at most dim * unit * |x||q|; centring, the norm and the last sum
        add a few units each, and the float64 distance errs too. Every constant is rounded up.
        """
        # Below "highest", torch may multiply in bfloat16.
        unit = 2.0**-24 if torch.get_float32_matmul_precision() == "highest" else 2.0**-7
        length = np.linalg.norm(centred.astype(np.float64), axis=1)
        reach = self._radius + length
        with np.errstate(invalid="ignore"):  # 0 times inf
            error = unit * ((2 * self.dim + 16) * self._radius * length + 10 * self._radius**2)
        error += self.dim * (2.0**-49 * reach**2 + 2.0**-120 * (1 + reach))  # float64, and underflow in float32
        return np.where(reach**2 < LARGEST_SQUARE, error, np.inf)


def _smallest(values: Vectors, k: int) -> Vectors:
    # 3 ms for 656 of 64 x 13,138, where torch.topk takes 10 and torch.kthvalue 17.
    return np.partition(values, k - 1, axis=1)[:, :k] if k < values.shape[1] else values


def _pad(rows: Ids, values: npt.NDArray[Any], filling: float, n: int) -> npt.NDArray[Any]:
    """Values of pairs that are sorted by row, one line (n, longest) for each row, filled up at the end."""
    counts = np.bincount(rows, minlength=n)
    column = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    padded = np.full((n, counts.max()), filling, values.dtype)
    padded[rows, column] = values
    return padded


def _threshold(smallest: Vectors, k: int, margin: Distances) -> Vectors:
    if smallest.shape[1] < k:  # fewer rows seen than are wanted
        return np.full(len(smallest), np.inf, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # NaN, from overflow, keeps all rows
        return np.nextafter((smallest.max(axis=1) + margin).astype(np.float32), np.float32(np.inf))


def squared_distances(store: Store, queries: Distances, rows: Ids, ids: Ids) -> Distances:
    """|x[ids[j]] - queries[rows[j]]|^2 for every pair j, in float64 from differences."""
    distances = np.empty(len(ids))
    for pairs in chunks(len(ids), store.dim * 8):
        difference = store.take(ids[pairs]).astype(np.float64)
        difference -= queries.take(rows[pairs], axis=0)
        distances[pairs] = np.einsum("pd,pd->p", difference, difference)
    return distances


def _as_tensor(vectors: Vectors) -> torch.Tensor:
    with warnings.catch_warnings():
        # A memory map opened for reading: nothing here writes to it.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return torch.from_numpy(vectors)


def _centre(store: Store) -> Distances:
    """A point to measure from: the mean if the table is far from the origin, where float32 would lose the digits."""
    total = np.zeros(store.dim)
    for block in store.blocks(max(1, CHUNK_BYTES // (8 * store.dim))):
        total += store.rows(block).sum(axis=0, dtype=np.float64)
    mean = (total / store.size).astype(np.float32).astype(np.float64)
    origin = np.zeros_like(mean)
    # Subtracting it from every block costs time, so only where it gains at least two bits.
    gains = _squared_norms(store, origin).max() > 16 * _squared_norms(store, mean).max()
    return mean if gains else origin


def _squared_norms(store: Store, centre: Distances, start: int = 0) -> Distances:
    """|x - centre|^2 of every row from `start` on."""
    norms = np.empty(store.size - start)
    for block in store.blocks(max(1, CHUNK_BYTES // (8 * store.dim)), start):
        difference = store.rows(block) - centre
        norms[block.start - start : block.stop - start] = np.einsum("nd,nd->n", difference, difference)
    return norms
