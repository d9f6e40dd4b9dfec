"""The vectors that all indexes search: rows can be added and removed, ids never change, readers see one moment."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Vectors, check_ids, check_vectors
from wolpertinger.threads import Guard

ROWS_PER_REDUCTION = 1 << 18  # at a time, of a minimum or maximum
MAX_ROWS = 2**32  # an id is packed with a float32 distance into 64 bits
MIN_PACKED = 256  # removed rows: fewer cost a lookup next to nothing

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _State:
    """Rows at one moment. Nothing that a state can see is ever written to."""

    table: Vectors
    added: Vectors
    """Behind the table; memory with room to grow, of which the rows up to `size` count."""
    size: int
    there: Flags | None
    """Which rows are not removed; None: all."""
    n: int
    version: int = 0
    names: Ids | None = None
    """The id of each row, ascending; None: its number."""
    packing: int = 0
    """How often removed rows were left out; row numbers change with it."""

    def plus(self, rows: Vectors, names: Ids) -> "_State":
        """With more rows. Written into spare memory, which no earlier state looks at."""
        used, there, added = self.size - len(self.table), self.there, self.added
        if used + len(rows) > len(added):
            added = np.empty((max(2 * len(added), used + len(rows), 64), rows.shape[1]), np.float32)
            added[:used] = self.added[:used]
        added[used : used + len(rows)] = rows
        if there is not None:
            there = np.concatenate([there, np.ones(len(rows), np.bool_)])
        return replace(
            self,
            added=added,
            size=self.size + len(rows),
            there=there,
            n=self.n + len(rows),
            version=self.version + 1,
            names=None if self.names is None else np.concatenate([self.names, names]),
        )

    def minus(self, ids: Ids) -> "_State":
        """Without the rows of these ids."""
        there = np.ones(self.size, np.bool_) if self.there is None else self.there.copy()
        there[ids if self.names is None else np.searchsorted(self.names, ids)] = False
        return replace(self, there=there, n=self.n - len(ids), version=self.version + 1)


class Rows:
    """Vectors by row number 0..size-1, of which n are not removed, at one moment: what a reader takes once."""

    def __init__(self, state: _State) -> None:
        self._state = state

    @property
    def n(self) -> int:
        """Number of rows, without the removed ones."""
        return self._state.n

    @property
    def size(self) -> int:
        """Number of rows, the removed ones included."""
        return self._state.size

    @property
    def dim(self) -> int:
        """Dimensions of a row."""
        return self._state.table.shape[1]

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._state.version

    @property
    def packing(self) -> int:
        """How often removed rows were left out: row numbers are the same as long as it is."""
        return self._state.packing

    @property
    def there(self) -> Flags | None:
        """Which rows (size,) are not removed; None: all."""
        return self._state.there

    @property
    def removed(self) -> Ids:
        """Numbers of removed rows, ascending."""
        there = self._state.there
        return np.empty(0, np.int64) if there is None else np.flatnonzero(~there)

    @property
    def ids(self) -> Ids:
        """Numbers (n,) of the rows that are not removed, ascending."""
        state = self._state
        return np.arange(state.size) if state.there is None else np.flatnonzero(state.there)

    @property
    def names(self) -> Ids | None:
        """The id of each row (size,), ascending; None: its number."""
        return self._state.names

    def named(self, rows: Ids) -> Ids:
        """The ids of rows (...)."""
        names = self._state.names
        return rows if names is None else names.take(rows)

    def holds(self, ids: Ids) -> Flags:
        """Return which of these rows are present; -1, removed ones and those that were never given are not."""
        state = self._state
        given = ids.view(np.uint64) < np.uint64(state.size)  # as unsigned, -1 is huge
        return given if state.there is None else given & state.there[np.where(given, ids, 0)]

    def take(self, ids: Ids) -> Vectors:
        """Return the vectors (..., dim) of rows (...), which must have been given."""
        # `take` copies rows faster than indexing with an array does.
        state = self._state
        if state.size == len(state.table):
            return state.table.take(ids, axis=0)
        late = ids >= len(state.table)
        vectors = state.table.take(np.where(late, 0, ids), axis=0)
        vectors[late] = state.added.take(ids[late] - len(state.table), axis=0)
        return vectors

    def rows(self, block: slice) -> Vectors:
        """Return a view of the vectors of a block of rows that `blocks` gave."""
        state = self._state
        first = len(state.table)
        if block.start < first:
            return state.table[block]
        return state.added[block.start - first : block.stop - first]

    def blocks(self, rows: int, start: int = 0) -> Iterator[slice]:
        """Yield slices of at most `rows` rows that cover all from `start` on, each contiguous in memory."""
        first, size = len(self._state.table), self._state.size
        for begin, last in ((start, first), (max(start, first), size)):
            yield from (slice(at, min(last, at + rows)) for at in range(begin, last, max(1, rows)))

    @property
    def added(self) -> Vectors:
        """Rows (added, dim) that were added to the table, removed ones included."""
        return self._state.added[: self._state.size - len(self._state.table)]

    def vectors(self) -> Vectors:
        """Return all rows (size, dim), removed ones included: the table itself if nothing was added, else a copy."""
        state = self._state
        if state.size == len(state.table):
            return state.table
        return np.concatenate([state.table, state.added[: state.size - len(state.table)]])

    def reduce(self, ufunc: np.ufunc) -> Vectors:
        """Return np.minimum or np.maximum over all rows that are not removed (dim,)."""
        parts, now = [], Rows(self._state)
        for block in now.blocks(ROWS_PER_REDUCTION):
            rows = now.rows(block)
            if now.there is not None:
                rows = rows[now.there[block]]
            if len(rows):
                parts.append(ufunc.reduce(rows, axis=0))
        return ufunc.reduce(np.stack(parts), axis=0)


class Store(Rows):
    """Vectors by id 0..size-1, of which n are not removed. The given table is not copied: do not change it.

    A writer makes the next state and puts it in place by one assignment. Readers that ask more than one thing ask
    `now()`, and indexes `packed()`: without the removed rows, once they are more than the others.
    """

    def __init__(self, vectors: npt.ArrayLike) -> None:
        table = check_vectors(vectors)
        _check_size(len(table))
        state = _State(table, np.empty((0, table.shape[1]), np.float32), len(table), None, len(table))
        self._states = state, state  # by id, and packed: the same until removed rows are left out
        self._guard = Guard()

    @property
    def _state(self) -> _State:  # type: ignore[override]
        return self._states[0]

    def now(self) -> Rows:
        """All rows by id, as they are now."""
        return Rows(self._states[0])

    def packed(self) -> Rows:
        """The rows to search, as they are now: their numbers are not ids, `named` gives those."""
        return Rows(self._states[1])

    def add(self, vectors: npt.ArrayLike) -> Ids:
        """Add rows and return their ids, which follow those of the others."""
        rows = check_vectors(vectors)
        if rows.shape[1] != self.dim:
            raise ValueError(f"vectors have {rows.shape[1]} dimensions: give (n, {self.dim}), as the others have")
        with self.alone():
            whole, packed = self._states
            _check_size(whole.size + len(rows))
            new = np.arange(whole.size, whole.size + len(rows))
            more = whole.plus(rows, new)
            self._states = more, (more if packed is whole else packed.plus(rows, new))
        return new

    def remove(self, ids: npt.ArrayLike) -> None:
        """Remove rows; their ids are never given again. At least one row must stay."""
        if not np.size(ids):
            return
        with self.alone():
            whole, packed = self._without(ids)
            if packed.size - packed.n > max(MIN_PACKED, packed.n):
                packed = _pack(whole, Rows(whole).ids, packed.packing + 1)
            self._states = whole, packed

    def restore(self, removed: npt.ArrayLike, names: npt.ArrayLike | None) -> None:
        """Remove rows as a saved store did: the ids of its packed rows, or None where it was not packed."""
        with self.alone():
            whole, packed = self._without(removed) if np.size(removed) else self._states
            if names is not None:
                packed = _pack(whole, check_names(names, Rows(whole)), packed.packing + 1)
            self._states = whole, packed

    def _without(self, ids: npt.ArrayLike) -> tuple[_State, _State]:
        whole, packed = self._states
        gone = np.unique(check_ids(ids, whole.size))
        if not (there := self.holds(gone)).all():
            raise ValueError(f"id {gone[~there][0]} was removed already")
        if len(gone) >= whole.n:
            raise ValueError(f"{len(gone)} ids to remove of {whole.n}: at least one action must stay")
        fewer = whole.minus(gone)
        return fewer, (fewer if packed is whole else packed.minus(gone))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else adds or removes inside a `with` block; readers go on."""
        with self._guard.taken() as ours:
            if not ours:
                raise RuntimeError("actions are being added or removed: a signal handler amid that cannot do so too")
            yield


def _pack(whole: _State, names: Ids, packing: int) -> _State:
    """Copy the rows with these ids, among them all that are there, to a table of their own."""
    rows = Rows(whole)
    there = None if len(names) == whole.n else rows.holds(names)
    room = np.empty((0, rows.dim), np.float32)
    return _State(rows.take(names), room, len(names), there, whole.n, whole.version, names, packing)


def check_names(names: npt.ArrayLike, rows: Rows) -> Ids:
    """Return ids of packed rows, if they ascend, and all rows that are there are among them."""
    ids = check_ids(names, rows.size)
    if ids.ndim != 1 or (np.diff(ids) <= 0).any() or int(rows.holds(ids).sum()) != rows.n:
        raise ValueError(f"{ids.size} ids of packed rows do not ascend, or lack some of the {rows.n} that are there")
    return ids


def _check_size(size: int) -> None:
    if size > MAX_ROWS:
        raise ValueError(f"{size} vectors are too many: {MAX_ROWS} at most")


def as_store(vectors: "npt.ArrayLike | Store") -> Store:
    """Return a store over vectors, or the store itself if it is one."""
    return vectors if isinstance(vectors, Store) else Store(vectors)
