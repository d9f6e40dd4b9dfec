"""Exact nearest neighbours by a scan: float32 matrix products select candidates, float64 distances decide."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from wolpertinger.index.base import CHUNK_BYTES, Ids, Vectors, check_k, check_queries
from wolpertinger.index.shortlist import Distances, Shortlist, decide, search_rows
from wolpertinger.index.store import Rows, Store, as_store

BLOCK_BYTES = 1 << 24  # of approximate distances at a time
MAX_QUERIES_PER_PASS = 1 << 12  # over a table of several blocks: more queries make the blocks too narrow
QUERIES_PER_BLOCK = 32  # at a time, in a table whose distances to so many queries fit one block
MAX_SQUARED_DISTANCE = 1e37  # beyond this, float32 may overflow


class ExactIndex:
    """The exact k nearest rows of a store or a table, ties by id."""

    def __init__(self, vectors: npt.ArrayLike | Store) -> None:
        self._store = as_store(vectors)
        self._scan = Scan.of(self._store.packed())

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
        scan = self._scan
        if scan.rows.version < self._store.version:
            scan = self.at(self._store.packed())
        k = check_k(k, scan.rows.n)
        return scan.rows.named(scan.search(check_queries(queries, self.dim).astype(np.float64), k))

    def at(self, rows: Rows) -> "Scan":
        """Return a scan of the store's rows at one moment."""
        scan = self._scan  # several threads may do this at once: each has what it needs
        if scan.rows.version > rows.version:
            return Scan.of(rows)
        if scan.rows.version < rows.version:
            self._scan = scan = scan.follow(rows)
        return scan


@dataclass(frozen=True, eq=False)
class Scan:
    """An exact scan of the rows of one moment."""

    rows: Rows
    centre: Distances
    norms: torch.Tensor
    """|x - centre|^2 of each row in float32, infinite for removed ones."""
    radius: float

    @classmethod
    def of(cls, rows: Rows) -> "Scan":
        """Go through all rows."""
        return cls(rows, _centre(rows), torch.empty(0), 0.0).follow(rows)

    def follow(self, rows: Rows) -> "Scan":
        """Return a scan of the rows a while later."""
        if rows.packing != self.rows.packing:
            return Scan.of(rows)
        squares = _squared_norms(rows, self.centre, start=len(self.norms))
        radius = max(self.radius, float(np.sqrt(squares.max(initial=0.0))))
        with np.errstate(over="ignore"):  # such tables have an infinite error bound
            norms = torch.cat([self.norms, torch.from_numpy(squares.astype(np.float32))])
        if rows.there is not None:
            norms[torch.from_numpy(~rows.there)] = torch.inf
        return Scan(rows, self.centre, norms, radius)

    @property
    def dim(self) -> int:
        return self.rows.dim

    def search(self, points: Distances, k: int) -> Ids:
        """Return the rows (batch, k) nearest to each query (batch, dim)."""
        found = np.empty((len(points), k), np.int64)
        first = next(iter(self.rows.blocks(max(1, BLOCK_BYTES // (4 * QUERIES_PER_BLOCK)))))
        if first.stop < self.rows.size:
            # The k best of a pass's queries are no larger than a block.
            step = max(1, min(MAX_QUERIES_PER_PASS, BLOCK_BYTES // (4 * k)))
            for start in range(0, len(points), step):
                found[start : start + step] = self._search_blocks(points[start : start + step], k)
            return found
        table = self._centred(first)
        for start in range(0, len(points), QUERIES_PER_BLOCK):
            part = slice(start, start + QUERIES_PER_BLOCK)
            found[part] = self._search_table(points[part], k, table)
        return found

    def _search_blocks(self, queries: Distances, k: int) -> Ids:
        """Search a table block by block."""
        width = min(max(1, BLOCK_BYTES // (4 * len(queries))), self.rows.size)
        blocks = list(self.rows.blocks(width))
        if len(blocks) == 1:
            return self._search_table(queries, k, self._centred(blocks[0]))
        points, margin = self._from_centre(queries)
        memory = torch.empty(len(queries) * width)
        shortlist = Shortlist(self.rows, queries, k, margin, width)
        for block in blocks:
            shortlist.take(self._approximate(points, self._centred(block), block, memory), block.start)
        rows, ids, _ = shortlist.pairs()
        return decide(self.rows, queries, rows, ids, k)

    def _search_table(self, queries: Distances, k: int, table: torch.Tensor) -> Ids:
        """Search a table of one block."""
        points, margin = self._from_centre(queries)
        approximate = self._approximate(points, table, slice(0, len(table)), torch.empty(len(queries) * len(table)))
        found = search_rows(self.rows, queries, approximate, k, margin) if np.isfinite(margin).all() else None
        if found is not None:
            return found
        shortlist = Shortlist(self.rows, queries, k, margin, len(table))
        shortlist.take(approximate, 0)
        rows, ids, _ = shortlist.pairs()
        return decide(self.rows, queries, rows, ids, k)

    def _from_centre(self, queries: Distances) -> tuple[Vectors, Distances]:
        """Return queries (batch, dim) relative to the centre, and the margins (batch,) of their approximations."""
        with np.errstate(over="ignore"):  # such queries get an infinite margin
            points = (queries - self.centre).astype(np.float32)
        return points, 2 * self._error_bound(points)

    def _centred(self, block: slice) -> torch.Tensor:
        table = _as_tensor(self.rows.rows(block))
        return table - torch.from_numpy(self.centre.astype(np.float32)) if self.centre.any() else table

    def _approximate(self, points: Vectors, table: torch.Tensor, block: slice, memory: torch.Tensor) -> Vectors:
        """Write |x|^2 - 2 x.q, which orders as |x - q|^2 does, for a block of rows x to `memory`: (batch, rows)."""
        result = memory[: len(points) * len(table)].view(len(points), len(table))
        torch.addmm(self.norms[block], torch.from_numpy(points), table.T, alpha=-2, out=result)
        return result.numpy()

    def _error_bound(self, centred: Vectors) -> Distances:
        """Bound the error of an approximation, per query; infinite where it may overflow.

        A product of dim terms in any order is off by at most dim * unit * |x||q|; centring, the norm and the last sum
        add a few units each, and the float64 distance has an error too. Every constant is rounded up.
        """
        # Below "highest", torch may multiply in bfloat16.
        unit = 2.0**-24 if _has_full_products() else 2.0**-7
        length = np.linalg.norm(centred.astype(np.float64), axis=1)
        reach = self.radius + length
        with np.errstate(invalid="ignore"):  # 0 times inf
            error = unit * ((2 * self.dim + 16) * self.radius * length + 10 * self.radius**2)
        error += self.dim * (2.0**-49 * reach**2 + 2.0**-120 * (1 + reach))  # float64, and underflow in float32
        return np.where(reach**2 < MAX_SQUARED_DISTANCE, error, np.inf)


def _has_full_products() -> bool:
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set per backend, which has no single answer
        return False


def _as_tensor(vectors: Vectors) -> torch.Tensor:
    return torch.from_numpy(vectors if vectors.flags.writeable else np.asarray(_Writable(vectors)))


class _Writable:
    """A read-only array, a memory map say, in the guise of one that torch does not warn of: nothing writes to it.

    Not `warnings.catch_warnings`, which changes the filters of all threads.
    """

    def __init__(self, array: Vectors) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def _centre(rows: Rows) -> Distances:
    """Return the origin, or the mean where the table lies so far from the origin that float32 would lose digits."""
    total = np.zeros(rows.dim)
    for block in rows.blocks(max(1, CHUNK_BYTES // (8 * rows.dim))):
        total += rows.rows(block).sum(axis=0, dtype=np.float64)
    mean = (total / rows.size).astype(np.float32).astype(np.float64)
    origin = np.zeros_like(mean)
    # Subtracting the mean from every block takes time: only where it gains at least two bits.
    gains = _squared_norms(rows, origin).max() > 16 * _squared_norms(rows, mean).max()
    return mean if gains else origin


def _squared_norms(rows: Rows, centre: Distances, start: int = 0) -> Distances:
    """Return |x - centre|^2 of every row from `start` on."""
    norms = np.empty(rows.size - start)
    for block in rows.blocks(max(1, CHUNK_BYTES // (8 * rows.dim)), start):
        difference = rows.rows(block) - centre
        norms[block.start - start : block.stop - start] = np.einsum("nd,nd->n", difference, difference)
    return norms
