"""The vectors that all indexes search: rows can be added and removed, ids never change."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Vectors, check_ids, check_vectors

ROWS_PER_REDUCTION = 1 << 18  # at a time, of a minimum or maximum
MAX_ROWS = 2**32  # an id is packed with a float32 distance into 64 bits


class Store:
    """Vectors by id 0..size-1, of which n are not removed. The given table is not copied: do not change it.

    Indexes over a store compare `version` before each search, and apply what was added and removed.
    """

    def __init__(self, vectors: npt.ArrayLike) -> None:
        self._table = check_vectors(vectors)
        self._added = np.empty((0, self._table.shape[1]), np.float32)  # with room to grow
        self._size = len(self._table)
        self._there: npt.NDArray[np.bool_] | None = None  # None: none is removed
        self._n = self._size
        self.version = 0
        _check_size(self._size)

    @property
    def n(self) -> int:
        """Number of rows, without the removed ones."""
        return self._n

    @property
    def size(self) -> int:
        """Number of ids ever given, those of removed rows included."""
        return self._size

    @property
    def dim(self) -> int:
        """Dimensions of a row."""
        return self._table.shape[1]

    @property
    def removed(self) -> Ids:
        """Ids of removed rows, ascending."""
        return np.empty(0, np.int64) if self._there is None else np.flatnonzero(~self._there)

    @property
    def ids(self) -> Ids:
        """Ids (n,) of the rows that are not removed, ascending."""
        return np.arange(self._size) if self._there is None else np.flatnonzero(self._there)

    def holds(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Return which of these ids are present; -1, removed ids and ids that were never given are not."""
        given = ids.view(np.uint64) < np.uint64(self._size)  # as unsigned, -1 is huge
        return given if self._there is None else given & self._there[np.where(given, ids, 0)]

    def take(self, ids: Ids) -> Vectors:
        """Return the vectors (..., dim) of ids (...), which must have been given."""
        # `take` copies rows faster than indexing with an array does.
        if self._size == len(self._table):
            return self._table.take(ids, axis=0)
        late = ids >= len(self._table)
        vectors = self._table.take(np.where(late, 0, ids), axis=0)
        vectors[late] = self._added.take(ids[late] - len(self._table), axis=0)
        return vectors

    def rows(self, block: slice) -> Vectors:
        """Return a view of the vectors of a block of ids that `blocks` gave."""
        first = len(self._table)
        if block.start < first:
            return self._table[block]
        return self._added[block.start - first : block.stop - first]

    def blocks(self, rows: int, start: int = 0) -> Iterator[slice]:
        """Yield slices of at most `rows` ids that cover all from `start` on, each contiguous in memory."""
        for first, last in ((start, len(self._table)), (max(start, len(self._table)), self._size)):
            yield from (slice(at, min(last, at + rows)) for at in range(first, last, max(1, rows)))

    @property
    def added(self) -> Vectors:
        """Rows (added, dim) that were added to the table, removed ones included."""
        return self._added[: self._size - len(self._table)]

    def vectors(self) -> Vectors:
        """Return all rows (size, dim), removed ones included: the table itself if nothing was added, else a copy."""
        return np.concatenate([self._table, self.added]) if len(self.added) else self._table

    def reduce(self, ufunc: np.ufunc) -> Vectors:
        """Return np.minimum or np.maximum over all rows that are not removed (dim,)."""
        parts = []
        for block in self.blocks(ROWS_PER_REDUCTION):
            rows = self.rows(block)
            if self._there is not None:
                rows = rows[self._there[block]]
            if len(rows):
                parts.append(ufunc.reduce(rows, axis=0))
        return ufunc.reduce(np.stack(parts), axis=0)

    def add(self, vectors: npt.ArrayLike) -> Ids:
        """Add rows and return their ids, which follow those of the others."""
        rows = check_vectors(vectors)
        if rows.shape[1] != self.dim:
            raise ValueError(f"vectors have {rows.shape[1]} dimensions: give (n, {self.dim}), as the others have")
        start, used = self._size, self._size - len(self._table)
        _check_size(start + len(rows))
        if used + len(rows) > len(self._added):
            grown = np.empty((max(2 * len(self._added), used + len(rows), 64), self.dim), np.float32)
            grown[:used] = self._added[:used]
            self._added = grown
        self._added[used : used + len(rows)] = rows
        self._size += len(rows)
        self._n += len(rows)
        if self._there is not None:
            self._there = np.concatenate([self._there, np.ones(len(rows), np.bool_)])
        self.version += 1
        return np.arange(start, self._size)

    def remove(self, ids: npt.ArrayLike) -> None:
        """Remove rows; their ids are never given again. At least one row must stay."""
        if not np.size(ids):
            return
        gone = np.unique(check_ids(ids, self._size))
        if not self.holds(gone).all():
            raise ValueError(f"id {gone[~self.holds(gone)][0]} was removed already")
        if len(gone) >= self._n:
            raise ValueError(f"{len(gone)} ids to remove of {self._n}: at least one action must stay")
        if self._there is None:
            self._there = np.ones(self._size, np.bool_)
        self._there[gone] = False
        self._n -= len(gone)
        self.version += 1


def _check_size(size: int) -> None:
    if size > MAX_ROWS:
        raise ValueError(f"{size} vectors are too many: {MAX_ROWS} at most")


def as_store(vectors: "npt.ArrayLike | Store") -> Store:
    """Return a store over vectors, or the store itself if it is one."""
    return vectors if isinstance(vectors, Store) else Store(vectors)
