"""Approximate nearest neighbours by FAISS; every search returns k distinct neighbours."""

import math
import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Vectors, check_k, check_queries
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss_build import (
    MAX_COORDINATE,
    add_rows,
    build,
    divides_itself,
    faiss_threads,
    find_ivf,
    innermost,
    limit,
    max_coordinate,
    read,
)
from wolpertinger.index.refine import refine
from wolpertinger.index.store import Store, as_store
from wolpertinger.threads import count_threads, divide

WIDENING = 4  # times as many lists or candidates, after a search that found fewer than k
MIN_NPROBE = 16
MIN_EF_SEARCH = 64
SCANNED_PER_NEIGHBOUR = 8  # rows that an IVF search reads for each neighbour, unless told otherwise
MIN_QUERIES_PER_THREAD = 8  # with fewer, the hand-over takes longer than it saves
MAX_UNSKIPPED_PER_NEIGHBOUR = 16  # removed rows that FAISS still returns: with more, a scan is faster


@dataclass(frozen=True)
class Effort:
    """Search parameters. None is a default that grows with k; parameters of other kinds of index are ignored."""

    nprobe: int | None = None
    """Lists of an inverted file (IVF) to scan."""
    ef_search: int | None = None
    """Size of the candidate list of an HNSW search."""
    overfetch: float = 1.0
    """Candidates to fetch for each neighbour, by the index's own distances; exact distances re-rank them."""

    def __post_init__(self) -> None:
        for name, least in (("nprobe", 1), ("ef_search", 1), ("overfetch", 1.0)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, type(least) | int) and least <= value < math.inf):
                raise ValueError(f"{name}={value!r}: give a number of at least {least}")

    def __str__(self) -> str:
        parts = [f"nprobe {self.nprobe}" if self.nprobe else "", f"efSearch {self.ef_search}" if self.ef_search else ""]
        parts.append(f"re-ranks {self.overfetch:g} k" if self.overfetch > 1 else "")
        return ", ".join(filter(None, parts))


class FaissIndex:
    """k near rows of a store by any FAISS `index_factory` recipe, sorted by exact distance in float32, ties by id.

    A search that finds fewer than k is repeated with more effort, and in the end by an exact scan.
    """

    def __init__(
        self,
        vectors: npt.ArrayLike | Store,
        recipe: str,
        *,
        effort: Effort | None = None,
        built: npt.NDArray[np.uint8] | None = None,
        build_seconds: float = math.inf,
        centroids: Vectors | None = None,
    ) -> None:
        self._store = as_store(vectors)
        self.recipe = recipe
        self.effort = effort or Effort()
        self._params: dict[tuple[int, Effort], Any] = {}  # FAISS's search parameters, made once
        if built is None:
            self._faiss = build(self._store, recipe, build_seconds, centroids)
        else:
            self._faiss = read(built, self._store, recipe)
        self._checked_rows = 0  # of the store, for coordinates that are too large
        self._overflows = False  # some are too large for FAISS: an exact scan answers
        self._version = -1
        self._lock = threading.Lock()  # shared by all that share the FAISS index
        self._selector: Any = None  # FAISS's filter of removed rows
        self._unskipped = 0  # removed rows that FAISS returns, for lack of a filter

    @property
    def n(self) -> int:
        """Number of rows, without the removed ones."""
        return self._store.n

    @property
    def dim(self) -> int:
        """Dimensions of a row."""
        return self._store.dim

    @cached_property
    def kind(self) -> str:
        """ "IVF", "HNSW" or "flat": which search parameters apply."""
        if find_ivf(self._faiss) is not None:
            return "IVF"
        return "HNSW" if isinstance(innermost(self._faiss), faiss.IndexHNSW) else "flat"

    @cached_property
    def lists(self) -> int:
        """Number of lists of the inverted file; 1 if there is none."""
        return getattr(find_ivf(self._faiss), "nlist", 1)

    @property
    def centroids(self) -> Vectors | None:
        """Centroids of the lists (lists, dim), to warm-start another index with; None without lists."""
        ivf = find_ivf(self._faiss)
        return None if ivf is None else ivf.quantizer.reconstruct_n(0, ivf.nlist)

    @property
    def has_exact_distances(self) -> bool:
        """Whether FAISS itself computes exact distances, so that re-ranking changes nothing."""
        exact = (faiss.IndexFlat, faiss.IndexIVFFlat, faiss.IndexHNSWFlat)
        return isinstance(faiss.downcast_index(self._faiss), exact)

    @property
    def nbytes(self) -> int:
        """Memory of the index, without the store."""
        sizes: list[int] = []
        faiss.write_index(self._faiss, faiss.PyCallbackIOWriter(lambda data: sizes.append(len(data)), 1 << 20))
        return sum(sizes)

    def is_usable(self, k: int) -> bool:
        """Whether it answers searches for k itself, and does not leave them to an exact scan."""
        self._catch_up()
        return not self._overflows and self._unskipped <= MAX_UNSKIPPED_PER_NEIGHBOUR * k

    def with_effort(self, effort: Effort) -> "FaissIndex":
        """Return an index over the same FAISS index with other search parameters; nothing is built or copied."""
        other = object.__new__(FaissIndex)
        other.__dict__.update(self.__dict__, effort=effort, _params={})
        return other

    def to_bytes(self) -> npt.NDArray[np.uint8]:
        """Serialise the FAISS index, for the constructor's `built`."""
        self._catch_up()
        return faiss.serialize_index(self._faiss)

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Return the ids (batch, k) of rows near each query (batch, dim), sorted by L2 distance, ties by id."""
        k = check_k(k, self.n)
        points = check_queries(queries, self.dim)
        if not self.is_usable(k):
            return self._exact.search(points, k)
        if divides_itself():
            return self._search(points, k)
        parts = divide(lambda rows: self._search(points[rows], k), len(points), least=MIN_QUERIES_PER_THREAD)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def candidates(self, points: Vectors, wanted: int, effort: Effort) -> Ids:
        """Return ids (batch, wanted) by FAISS's own distances, nearest first, -1 where it found fewer."""
        params = self._params.get((wanted, effort))
        if params is None:
            params = _search_params(self._faiss, *self._breadth(wanted, effort), self._selector)
            self._params[wanted, effort] = params
        with faiss_threads(count_threads() if divides_itself() else 1):
            return self._faiss.search(limit(points), wanted, params=params)[1]

    def _search(self, points: Vectors, k: int) -> Ids:
        found, short = self._attempt(points, k, self.effort)
        effort, is_widest = self.effort, self.kind == "flat"
        while short.any() and not is_widest:
            effort, is_widest = self._widen(effort, k)
            found[short], still = self._attempt(points[short], k, effort)
            short[short] = still
        if short.any():
            found[short] = self._exact.search(points[short], k)
        return found

    def _attempt(self, points: Vectors, k: int, effort: Effort) -> tuple[Ids, npt.NDArray[np.bool_]]:
        """Return ids (batch, k), and which rows of them are short of k distinct ids."""
        wanted = min(self._store.size, math.ceil(k * effort.overfetch) + self._unskipped)
        return refine(self._store, points, self.candidates(points, wanted, effort), k)

    def _breadth(self, wanted: int, effort: Effort) -> tuple[int, int]:
        """Return nprobe and efSearch."""
        nprobe = effort.nprobe or max(MIN_NPROBE, math.ceil(SCANNED_PER_NEIGHBOUR * wanted * self.lists / self.n))
        ef_search = max(wanted, effort.ef_search or MIN_EF_SEARCH)  # FAISS pads with -1 beyond efSearch
        return min(self.lists, nprobe), min(self._store.size, ef_search)

    def _widen(self, effort: Effort, k: int) -> tuple[Effort, bool]:
        """Return more effort, and whether it is the most there is."""
        nprobe, ef_search = (WIDENING * value for value in self._breadth(k, effort))
        is_widest = nprobe >= self.lists if self.kind == "IVF" else ef_search >= self._store.size
        return replace(effort, nprobe=nprobe, ef_search=ef_search), is_widest

    @cached_property
    def _exact(self) -> ExactIndex:
        return ExactIndex(self._store)

    def _catch_up(self) -> None:
        """Apply what was added to the store and removed from it since the last search."""
        if self._version == self._store.version:
            return
        with self._lock:
            add_rows(self._faiss, self._store, self._faiss.ntotal)  # unless one that shares it has
            self._overflows = self._overflows or max_coordinate(self._store, self._checked_rows) > MAX_COORDINATE
            self._checked_rows = self._store.size
            removed = self._store.removed
            self._selector = _select_present(self._faiss, removed, self._store) if len(removed) else None
            self._unskipped = 0 if self._selector is not None else len(removed)
            self._params = {}
            self._version = self._store.version


def _select_present(index: Any, removed: Ids, store: Store) -> Any:
    """Return FAISS's selector of the rows that are not removed, or None if this kind of index takes none."""
    bits = np.packbits(~np.isin(np.arange(store.size), removed), bitorder="little")
    selector = faiss.IDSelectorBitmap(bits)
    try:
        with faiss_threads(1):
            index.search(limit(store.take(store.ids[:1])), 1, params=_search_params(index, 1, 1, selector))
    except RuntimeError:
        return None
    return selector


def _search_params(index: Any, nprobe: int, ef_search: int, selector: Any) -> Any:
    """Return FAISS's parameters for one call, so that the index itself never changes."""
    index = faiss.downcast_index(index)
    only = {} if selector is None else {"sel": selector}
    if isinstance(index, faiss.IndexPreTransform):
        inner = _search_params(index.index, nprobe, ef_search, selector)
        return faiss.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexRefine):
        inner = _search_params(index.base_index, nprobe, ef_search, selector)
        return faiss.IndexRefineSearchParameters(k_factor=index.k_factor, base_index_params=inner)
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(nprobe=nprobe, **only)
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(efSearch=ef_search, **only)
    return faiss.SearchParameters(**only) if only else None
