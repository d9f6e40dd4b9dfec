"""A FAISS index beside a store that changes: what it holds, what came later, what was removed, at one moment.

A FAISS index that is searched is never written to. Rows that come later are scanned; when they are many, a copy of the
index takes them in and takes its place. Whoever finds another thread at that work scans all rows meanwhile.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import faiss
import numpy as np

from wolpertinger.index.base import Ids, Vectors
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss_build import (
    MAX_COORDINATE,
    add_rows,
    build,
    faiss_threads,
    max_coordinate,
)
from wolpertinger.index.store import Rows, Store
from wolpertinger.threads import Guard

MAX_LATER = 1 << 10  # rows that came later: a scan of so many takes some 10 microseconds
MAX_UNSKIPPED_PER_NEIGHBOUR = 16  # removed rows that FAISS still returns: with more, a scan is faster


@dataclass(frozen=True, eq=False)
class Filled:
    """A FAISS index, which is not changed any more, over the first rows of one packing."""

    faiss: Any
    """None: it cannot be built on the rows that are left."""
    packing: int
    holds: int
    overflows: bool
    """Some coordinates are too large for FAISS."""

    @classmethod
    def of(cls, index: Any, rows: Rows, start: int = 0, *, overflows: bool = False) -> "Filled":
        """An index over rows, the coordinates of those before `start` known."""
        overflows = overflows or max_coordinate(rows, start) > MAX_COORDINATE
        return cls(index, rows.packing, 0 if index is None else index.ntotal, overflows)


@dataclass(frozen=True, eq=False)
class Moment:
    """A FAISS index and the rows of one moment."""

    rows: Rows
    filled: Filled
    faiss: Any = None
    """None: an exact scan answers."""
    selector: Any = None
    """FAISS's filter of removed rows."""
    unskipped: int = 0
    """Removed rows that FAISS returns, for lack of a filter."""
    later: ExactIndex | None = None
    """Of the rows that FAISS does not hold."""
    later_rows: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    params: dict[Any, Any] = field(default_factory=dict)
    """FAISS's search parameters, made once."""

    def is_usable(self, k: int) -> bool:
        """Whether FAISS answers searches for k."""
        return self.faiss is not None and self.unskipped <= MAX_UNSKIPPED_PER_NEIGHBOUR * k

    def nearest_later(self, points: Vectors, k: int) -> Ids:
        """The nearest (batch, at most k) of the rows that FAISS does not hold."""
        if self.later is None:
            return np.empty((len(points), 0), np.int64)
        return self.later_rows[self.later.search(points, min(k, self.later.n))]


class FaissRows:
    """Keeps a FAISS index beside a store; shared by all efforts of searching it."""

    def __init__(self, store: Store, recipe: str, index: Any, rows: Rows) -> None:
        self._store, self._recipe = store, recipe
        self._guard = Guard()
        self._takes_filter: bool | None = None
        self.filled = Filled.of(index, rows)
        self._moment = self._look(self.filled, rows)

    @cached_property
    def exact(self) -> ExactIndex:
        """The scan that answers where FAISS cannot."""
        return ExactIndex(self._store)

    def now(self) -> Moment:
        """Index and rows as they are now, or a moment later."""
        moment = self._moment
        if moment.rows.version < self._store.version or moment.filled is not self.filled:
            filled = self._keep_up(self._store.packed(), MAX_LATER)
            # Read after the index, the rows are not older than it is.
            self._moment = moment = self._look(filled, self._store.packed())
        return moment

    def current(self) -> Filled:
        """The FAISS index of the present packing; waits for a thread that is building it."""
        return self._keep_up(self._store.packed(), MAX_LATER, waits=True)

    def settle(self) -> None:
        """Take all rows into the FAISS index."""
        filled = self._keep_up(self._store.packed(), 0, waits=True)
        self._moment = self._look(filled, self._store.packed())

    def _keep_up(self, rows: Rows, most: int, *, waits: bool = False) -> Filled:
        """Build the index anew where rows were packed, or take in those that came later, if they are more than `most`;
        not if another thread is at it.
        """
        if _is_behind(self.filled, rows, most):
            with self._guard.taken(waits=waits) as ours:
                if ours and _is_behind(self.filled, rows, most):
                    self.filled = self._renew(self.filled, rows)
        return self.filled

    def _renew(self, filled: Filled, rows: Rows) -> Filled:
        if filled.packing == rows.packing and filled.faiss is not None:
            try:
                copy = faiss.clone_index(filled.faiss)
            except RuntimeError:  # a kind that FAISS cannot copy
                pass
            else:
                add_rows(copy, rows, filled.holds)
                return Filled.of(copy, rows, filled.holds, overflows=filled.overflows)
        try:
            return Filled.of(build(rows, self._recipe, math.inf, None), rows)
        except ValueError:  # too few rows for this recipe: they are scanned
            return Filled.of(None, rows)

    def _look(self, filled: Filled, rows: Rows) -> Moment:
        later = rows.size - filled.holds
        is_fit = filled.faiss is not None and filled.packing == rows.packing and later <= MAX_LATER
        if not is_fit or filled.overflows or max_coordinate(rows, filled.holds) > MAX_COORDINATE:
            return Moment(rows, filled)
        selector, unskipped = None, 0
        if rows.there is not None and not (kept := rows.there[: filled.holds]).all():
            selector = self._filter(filled.faiss, kept)
            unskipped = 0 if selector is not None else int(np.count_nonzero(~kept))
        places = np.arange(filled.holds, rows.size)
        places = places[rows.holds(places)]
        scan = ExactIndex(rows.take(places)) if len(places) else None
        return Moment(rows, filled, filled.faiss, selector, unskipped, scan, places)

    def _filter(self, index: Any, kept: Any) -> Any:
        """Return FAISS's selector of the rows that are kept, or None if this kind of index takes none."""
        selector = faiss.IDSelectorBitmap(np.packbits(kept, bitorder="little"))
        if self._takes_filter is None:
            try:
                with faiss_threads(1):
                    point = np.zeros((1, index.d), np.float32)
                    index.search(point, 1, params=search_params(index, 1, 1, selector))
                self._takes_filter = True
            except RuntimeError:
                self._takes_filter = False
        return selector if self._takes_filter else None


def _is_behind(filled: Filled, rows: Rows, most: int) -> bool:
    if filled.packing != rows.packing:
        return filled.packing < rows.packing
    return filled.faiss is not None and rows.size - filled.holds > most


def search_params(index: Any, nprobe: int, ef_search: int, selector: Any) -> Any:
    """Return FAISS's parameters for one call, so that the index itself never changes."""
    index = faiss.downcast_index(index)
    only = {} if selector is None else {"sel": selector}
    if isinstance(index, faiss.IndexPreTransform):
        inner = search_params(index.index, nprobe, ef_search, selector)
        return faiss.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexRefine):
        inner = search_params(index.base_index, nprobe, ef_search, selector)
        return faiss.IndexRefineSearchParameters(k_factor=index.k_factor, base_index_params=inner)
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(nprobe=nprobe, **only)
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(efSearch=ef_search, **only)
    return faiss.SearchParameters(**only) if only else None
