"""Exact nearest neighbours by a scan: float32 matrix products select candidates, float64 distances decide."""

import threading
import warnings

import numpy as np
import numpy.typing as npt
import torch

from wolpertinger.index.base import CHUNK_BYTES, Ids, Vectors, check_k, check_queries
from wolpertinger.index.shortlist import Distances, Shortlist, decide, search_rows
from wolpertinger.index.store import Store, as_store

BLOCK_BYTES = 1 << 24  # of approximate distances at a time
MAX_QUERIES_PER_PASS = 1 << 12  # over a table of several blocks: more queries make the blocks too narrow
QUERIES_PER_BLOCK = 32  # at a time, in a table whose distances to so many queries fit one block
MAX_SQUARED_DISTANCE = 1e37  # beyond this, float32 may overflow


class ExactIndex:
    """The exact k nearest rows of a store or a table, ties by id."""

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
        """Number of rows, without the removed ones."""
        return self._store.n

    @property
    def dim(self) -> int:
        """Dimensions of a row."""
        return self._store.dim

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Return the ids (batch, k) of the rows nearest to each query (batch, dim) by L2 distance, ties by id."""
        k = check_k(k, self.n)
        points = check_queries(queries, self.dim).astype(np.float64)
        self._catch_up()
        found = np.empty((len(points), k), np.int64)
        first = next(iter(self._store.blocks(max(1, BLOCK_BYTES // (4 * QUERIES_PER_BLOCK)))))
        if first.stop < self._store.size:
            # The k best of a pass's queries are no larger than a block.
            step = max(1, min(MAX_QUERIES_PER_PASS, BLOCK_BYTES // (4 * k)))
            for start in range(0, len(points), step):
                found[start : start + step] = self._search_blocks(points[start : start + step], k)
            return found
        table = self._centred(first)
        for start in range(0, len(points), QUERIES_PER_BLOCK):
            rows = slice(start, start + QUERIES_PER_BLOCK)
            found[rows] = self._search_table(points[rows], k, table)
        return found

    def _catch_up(self) -> None:
        """Apply what was added to the store and removed from it since the last search."""
        with self._lock:
            if self._version != self._store.version:
                self._update_norms()

    def _update_norms(self) -> None:
        norms = _squared_norms(self._store, self._centre, start=len(self._norms))
        self._radius = max(self._radius, float(np.sqrt(norms.max(initial=0.0))))
        with np.errstate(over="ignore"):  # such tables have an infinite error bound
            self._norms = torch.cat([self._norms, torch.from_numpy(norms.astype(np.float32))])
        self._norms[torch.from_numpy(self._store.removed)] = torch.inf
        self._version = self._store.version

    def _search_blocks(self, queries: Distances, k: int) -> Ids:
        """Search a table block by block."""
        width = min(max(1, BLOCK_BYTES // (4 * len(queries))), self._store.size)
        blocks = list(self._store.blocks(width))
        if len(blocks) == 1:
            return self._search_table(queries, k, self._centred(blocks[0]))
        points, margin = self._from_centre(queries)
        memory = torch.empty(len(queries) * width)
        shortlist = Shortlist(self._store, queries, k, margin, width)
        for block in blocks:
            shortlist.take(self._approximate(points, self._centred(block), block, memory), block.start)
        rows, ids, _ = shortlist.pairs()
        return decide(self._store, queries, rows, ids, k)

    def _search_table(self, queries: Distances, k: int, table: torch.Tensor) -> Ids:
        """Search a table of one block."""
        points, margin = self._from_centre(queries)
        approximate = self._approximate(points, table, slice(0, len(table)), torch.empty(len(queries) * len(table)))
        found = search_rows(self._store, queries, approximate, k, margin) if np.isfinite(margin).all() else None
        if found is not None:
            return found
        shortlist = Shortlist(self._store, queries, k, margin, len(table))
        shortlist.take(approximate, 0)
        rows, ids, _ = shortlist.pairs()
        return decide(self._store, queries, rows, ids, k)

    def _from_centre(self, queries: Distances) -> tuple[Vectors, Distances]:
        """Return queries (batch, dim) relative to the centre, and the margins (batch,) of their approximations."""
        with np.errstate(over="ignore"):  # such queries get an infinite margin
            points = (queries - self._centre).astype(np.float32)
        return points, 2 * self._error_bound(points)

    def _centred(self, block: slice) -> torch.Tensor:
        table = _as_tensor(self._store.rows(block))
        return table - torch.from_numpy(self._centre.astype(np.float32)) if self._centre.any() else table

    def _approximate(self, points: Vectors, table: torch.Tensor, block: slice, memory: torch.Tensor) -> Vectors:
        """Write |x|^2 - 2 x.q, which orders as |x - q|^2 does, for a block of rows x to `memory`: (batch, rows)."""
        result = memory[: len(points) * len(table)].view(len(points), len(table))
        torch.addmm(self._norms[block], torch.from_numpy(points), table.T, alpha=-2, out=result)
        return result.numpy()

    def _error_bound(self, centred: Vectors) -> Distances:
        """Bound the error of an approximation, per query; infinite where it may overflow.

        A product of dim terms in any order is off by at most dim * unit * |x||q|; centring, the norm and the last sum
        add a few units each, and the float64 distance has an error too. Every constant is rounded up.
        """
        # Below "highest", torch may multiply in bfloat16.
        unit = 2.0**-24 if _has_full_products() else 2.0**-7
        length = np.linalg.norm(centred.astype(np.float64), axis=1)
        reach = self._radius + length
        with np.errstate(invalid="ignore"):  # 0 times inf
            error = unit * ((2 * self.dim + 16) * self._radius * length + 10 * self._radius**2)
        error += self.dim * (2.0**-49 * reach**2 + 2.0**-120 * (1 + reach))  # float64, and underflow in float32
        return np.where(reach**2 < MAX_SQUARED_DISTANCE, error, np.inf)


def _has_full_products() -> bool:
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set per backend, which has no single answer
        return False


def _as_tensor(vectors: Vectors) -> torch.Tensor:
    with warnings.catch_warnings():
        # A memory map may be read-only: nothing here writes to it.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return torch.from_numpy(vectors)


def _centre(store: Store) -> Distances:
    """Return the origin, or the mean where the table lies so far from the origin that float32 would lose digits."""
    total = np.zeros(store.dim)
    for block in store.blocks(max(1, CHUNK_BYTES // (8 * store.dim))):
        total += store.rows(block).sum(axis=0, dtype=np.float64)
    mean = (total / store.size).astype(np.float32).astype(np.float64)
    origin = np.zeros_like(mean)
    # Subtracting the mean from every block takes time: only where it gains at least two bits.
    gains = _squared_norms(store, origin).max() > 16 * _squared_norms(store, mean).max()
    return mean if gains else origin


def _squared_norms(store: Store, centre: Distances, start: int = 0) -> Distances:
    """Return |x - centre|^2 of every row from `start` on."""
    norms = np.empty(store.size - start)
    for block in store.blocks(max(1, CHUNK_BYTES // (8 * store.dim)), start):
        difference = store.rows(block) - centre
        norms[block.start - start : block.stop - start] = np.einsum("nd,nd->n", difference, difference)
    return norms
