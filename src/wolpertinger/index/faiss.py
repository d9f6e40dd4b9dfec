"""Approximate nearest neighbours by FAISS, completed so that k distinct neighbours always come back."""

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
    LARGEST,
    add_rows,
    build,
    divides_itself,
    faiss_threads,
    find_lists,
    innermost,
    limit,
    reach,
    read,
)
from wolpertinger.index.rank import rank
from wolpertinger.index.store import Store, as_store
from wolpertinger.threads import count_threads, divide

WIDEN = 4  # times as many lists or candidates, when a search came back short
LEAST_NPROBE = 16
LEAST_EF_SEARCH = 64
SCANNED_PER_NEIGHBOUR = 8  # rows an inverted-file search looks at, for each neighbour wanted
LEAST_QUERIES = 8  # a thread: below, handing over costs more than it gains
MOST_UNSKIPPED = 16  # rows for each neighbour wanted, removed but coming back: beyond, a scan is quicker


@dataclass(frozen=True)
class Effort:
    """How hard a search tries. What is None follows k; what the index has no use for is ignored."""

    nprobe: int | None = None
    """Lists of an inverted file to look into."""
    ef_search: int | None = None
    """Candidates that an HNSW search holds."""
    overfetch: float = 1.0
    """Candidates by the index's own distances, for each neighbour wanted: the exact distance decides among them."""

    def __post_init__(self) -> None:
        for name, least in (("nprobe", 1), ("ef_search", 1), ("overfetch", 1.0)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and least <= value < math.inf):
                raise ValueError(f"{name}={value!r}: give a number of at least {least}")

    def __str__(self) -> str:
        parts = [f"nprobe {self.nprobe}" if self.nprobe else "", f"efSearch {self.ef_search}" if self.ef_search else ""]
        parts.append(f"re-ranks {self.overfetch:g} k" if self.overfetch > 1 else "")
        return ", ".join(filter(None, parts))


class FaissIndex:
    """k near rows of a store by any FAISS `index_factory` recipe, sorted by exact distance in float32, ties by id.

    A search that comes back short is widened, and in the end left to an exact scan.
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
        self._params: dict[tuple[int, Effort], Any] = {}  # FAISS's, made once
        if built is None:
            self._faiss = build(self._store, recipe, build_seconds, centroids)
        else:
            self._faiss = read(built, self._store, recipe)
        self._seen = 0  # rows of the store that were looked at
        self._overflows = False  # some are too large for FAISS: an exact scan answers
        self._version = -1
        self._lock = threading.Lock()  # one for all that share the FAISS index
        self._selector: Any = None  # what makes FAISS skip removed rows
        self._unskipped = 0  # removed rows that come back all the same

    @property
    def n(self) -> int:
        """Rows that are there."""
        return self._store.n

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self._store.dim

    @cached_property
    def kind(self) -> str:
        """ "IVF", "HNSW" or "flat": what of an effort counts."""
        if find_lists(self._faiss) is not None:
            return "IVF"
        return "HNSW" if isinstance(innermost(self._faiss), faiss.IndexHNSW) else "flat"

    @cached_property
    def lists(self) -> int:
        """Of the inverted file; 1 if there is none."""
        return getattr(find_lists(self._faiss), "nlist", 1)

    @property
    def centroids(self) -> Vectors | None:
        """Of the lists (lists, dim), for another index with as many; None if there are no lists."""
        inverted_file = find_lists(self._faiss)
        return None if inverted_file is None else inverted_file.quantizer.reconstruct_n(0, inverted_file.nlist)

    @property
    def has_exact_distances(self) -> bool:
        """Whether FAISS itself measures with the whole vectors, so that re-ranking gains nothing."""
        exact = (faiss.IndexFlat, faiss.IndexIVFFlat, faiss.IndexHNSWFlat)
        return isinstance(faiss.downcast_index(self._faiss), exact)

    @property
    def nbytes(self) -> int:
        """Memory that it takes beside the store."""
        sizes: list[int] = []
        faiss.write_index(self._faiss, faiss.PyCallbackIOWriter(lambda data: sizes.append(len(data)), 1 << 20))
        return sum(sizes)

    def is_usable(self, k: int) -> bool:
        """Whether it answers for k itself, and does not leave that to a scan."""
        self._catch_up()
        return not self._overflows and self._unskipped <= MOST_UNSKIPPED * k

    def with_effort(self, effort: Effort) -> "FaissIndex":
        """The same index, searched with another effort; nothing is built or copied."""
        twin = object.__new__(FaissIndex)
        twin.__dict__.update(self.__dict__, effort=effort, _params={})
        return twin

    def to_bytes(self) -> npt.NDArray[np.uint8]:
        """What `built` takes."""
        self._catch_up()
        return faiss.serialize_index(self._faiss)

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Ids (batch, k) of rows near each query (batch, dim), sorted by L2 distance, ties by id."""
        k = check_k(k, self.n)
        points = check_queries(queries, self.dim)
        if not self.is_usable(k):
            return self._exact.search(points, k)
        if divides_itself():  # 2.1 ms, where we divided 64 queries in two and took 2.45
            return self._search(points, k)
        parts = divide(lambda rows: self._search(points[rows], k), len(points), least=LEAST_QUERIES)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def candidates(self, points: Vectors, wanted: int, effort: Effort) -> Ids:
        """Ids (batch, wanted) by FAISS's own distances, nearest first, -1 where it found fewer."""
        params = self._params.get((wanted, effort))
        if params is None:
            params = _search_params(self._faiss, *self._breadth(wanted, effort), self._selector)
            self._params[wanted, effort] = params
        with faiss_threads(count_threads() if divides_itself() else 1):
            return self._faiss.search(limit(points), wanted, params=params)[1]

    def _search(self, points: Vectors, k: int) -> Ids:
        found, short = self._attempt(points, k, self.effort)
        widening, widest = self.effort, self.kind == "flat"
        while short.any() and not widest:
            widening, widest = self._widen(widening, k)
            found[short], still = self._attempt(points[short], k, widening)
            short[short] = still
        if short.any():
            found[short] = self._exact.search(points[short], k)
        return found

    def _attempt(self, points: Vectors, k: int, effort: Effort) -> tuple[Ids, npt.NDArray[np.bool_]]:
        """Ids (batch, k), and which rows of them are not k distinct ids."""
        wanted = min(self._store.size, math.ceil(k * effort.overfetch) + self._unskipped)
        return rank(self._store, points, self.candidates(points, wanted, effort), k)

    def _breadth(self, wanted: int, effort: Effort) -> tuple[int, int]:
        """Lists to probe and candidates to hold."""
        nprobe = effort.nprobe or max(LEAST_NPROBE, math.ceil(SCANNED_PER_NEIGHBOUR * wanted * self.lists / self.n))
        ef_search = max(wanted, effort.ef_search or LEAST_EF_SEARCH)  # FAISS pads with -1 beyond efSearch
        return min(self.lists, nprobe), min(self._store.size, ef_search)

    def _widen(self, effort: Effort, k: int) -> tuple[Effort, bool]:
        """A wider effort, and whether there is none beyond it."""
        nprobe, ef_search = self._breadth(k, effort)
        wider = replace(effort, nprobe=nprobe * WIDEN, ef_search=ef_search * WIDEN)
        widest = nprobe * WIDEN >= self.lists if self.kind == "IVF" else ef_search * WIDEN >= self._store.size
        return wider, widest

    @cached_property
    def _exact(self) -> ExactIndex:
        return ExactIndex(self._store)

    def _catch_up(self) -> None:
        """Take in what was added to the store and removed from it since the last search."""
        if self._version == self._store.version:
            return
        with self._lock:
            add_rows(self._faiss, self._store, self._faiss.ntotal)  # another effort's twin may have added them already
            self._overflows = self._overflows or reach(self._store, self._seen) > LARGEST
            self._seen = self._store.size
            removed = self._store.removed
            self._selector = _skip(self._faiss, removed, self._store) if len(removed) else None
            self._unskipped = 0 if self._selector is not None else len(removed)
            self._params = {}
            self._version = self._store.version


def _skip(index: Any, removed: Ids, store: Store) -> Any:
    """What makes FAISS leave out removed rows, or None if this kind of index cannot."""
    bits = np.packbits(~np.isin(np.arange(store.size), removed), bitorder="little")
    selector = faiss.IDSelectorBitmap(bits)
    try:
        with faiss_threads(1):
            index.search(limit(store.take(store.ids[:1])), 1, params=_search_params(index, 1, 1, selector))
    except RuntimeError:
        return None
    return selector


def _search_params(index: Any, nprobe: int, ef_search: int, selector: Any) -> Any:
    """FAISS parameters for one call, so that the index itself never changes."""
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
