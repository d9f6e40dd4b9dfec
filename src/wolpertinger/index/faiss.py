"""Approximate nearest neighbours by FAISS; every search returns k distinct neighbours."""

import math
from dataclasses import dataclass, replace
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Vectors, check_k, check_queries
from wolpertinger.index.faiss_build import (
    build,
    divides_itself,
    faiss_threads,
    find_ivf,
    innermost,
    limit,
    read,
)
from wolpertinger.index.faiss_rows import FaissRows, Moment, search_params
from wolpertinger.index.refine import refine
from wolpertinger.index.store import Rows, Store, as_store
from wolpertinger.threads import count_threads, divide

WIDENING = 4  # times as many lists or candidates, after a search that found fewer than k
MIN_NPROBE = 16
MIN_EF_SEARCH = 64
SCANNED_PER_NEIGHBOUR = 8  # rows that an IVF search reads for each neighbour, unless told otherwise
MIN_QUERIES_PER_THREAD = 8  # with fewer, the hand-over takes longer than it saves


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
        rows = self._store.packed()
        index = build(rows, recipe, build_seconds, centroids) if built is None else read(built, rows, recipe)
        ivf, kept_as = find_ivf(index), (faiss.IndexFlat, faiss.IndexIVFFlat, faiss.IndexHNSWFlat)
        self.kind = "IVF" if ivf is not None else "HNSW" if isinstance(innermost(index), faiss.IndexHNSW) else "flat"
        """ "IVF", "HNSW" or "flat": which search parameters apply."""
        self.lists = getattr(ivf, "nlist", 1)
        """Number of lists of the inverted file; 1 if there is none."""
        self.has_exact_distances = isinstance(faiss.downcast_index(index), kept_as)
        """Whether FAISS itself computes exact distances, so that re-ranking changes nothing."""
        self._rows = FaissRows(self._store, recipe, index, rows)  # shared by all that share the FAISS index

    @property
    def n(self) -> int:
        """Number of rows, without the removed ones."""
        return self._store.n

    @property
    def dim(self) -> int:
        """Dimensions of a row."""
        return self._store.dim

    @property
    def centroids(self) -> Vectors | None:
        """Centroids of the lists (lists, dim), to warm-start another index with; None without lists."""
        ivf = None if self._faiss is None else find_ivf(self._faiss)
        return None if ivf is None else ivf.quantizer.reconstruct_n(0, ivf.nlist)

    @property
    def nbytes(self) -> int:
        """Memory of the index, without the store."""
        sizes: list[int] = []
        if (index := self._faiss) is not None:
            faiss.write_index(index, faiss.PyCallbackIOWriter(lambda data: sizes.append(len(data)), 1 << 20))
        return sum(sizes)

    @property
    def _faiss(self) -> Any:
        return self._rows.filled.faiss

    def is_usable(self, k: int) -> bool:
        """Whether it answers searches for k itself, and does not leave them to an exact scan."""
        return self._rows.now().is_usable(k)

    def settle(self) -> None:
        """Take the rows that were added since into the FAISS index itself."""
        self._rows.settle()

    def with_effort(self, effort: Effort) -> "FaissIndex":
        """Return an index over the same FAISS index with other search parameters; nothing is built or copied."""
        other = object.__new__(FaissIndex)
        other.__dict__.update(self.__dict__, effort=effort)
        return other

    def to_bytes(self) -> npt.NDArray[np.uint8] | None:
        """Serialise the FAISS index, for the constructor's `built`; None where it cannot be built on what is left.

        Rows that were added since may not be in it yet.
        """
        index = self._rows.current().faiss
        return None if index is None else faiss.serialize_index(index)

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Return the ids (batch, k) of rows near each query (batch, dim), sorted by L2 distance, ties by id."""
        moment = self._rows.now()
        k = check_k(k, moment.rows.n)
        points = check_queries(queries, self.dim)
        if not moment.is_usable(k):
            return self._rows.exact.search(points, k)
        if divides_itself():
            return moment.rows.named(self._search(moment, points, k))
        parts = divide(lambda rows: self._search(moment, points[rows], k), len(points), least=MIN_QUERIES_PER_THREAD)
        return moment.rows.named(parts[0] if len(parts) == 1 else np.concatenate(parts))

    def candidates(self, points: Vectors, wanted: int, effort: Effort) -> Ids:
        """Return ids (batch, wanted) by FAISS's own distances, nearest first, -1 where it found fewer."""
        moment = self._rows.now()
        if moment.faiss is None:
            return self._rows.exact.search(points, min(wanted, self.n))
        found = self._candidates(moment, points, wanted, effort)
        return np.where(found < 0, found, moment.rows.named(found))

    def _candidates(self, moment: Moment, points: Vectors, wanted: int, effort: Effort) -> Ids:
        params = moment.params.get((wanted, effort))
        if params is None:
            breadth = self._breadth(moment.rows, wanted, effort)
            params = moment.params[wanted, effort] = search_params(moment.faiss, *breadth, moment.selector)
        with faiss_threads(count_threads() if divides_itself() else 1):
            return moment.faiss.search(limit(points), wanted, params=params)[1]

    def _search(self, moment: Moment, points: Vectors, k: int) -> Ids:
        found, short = self._attempt(moment, points, k, self.effort)
        effort, is_widest = self.effort, self.kind == "flat"
        while short.any() and not is_widest:
            effort, is_widest = self._widen(moment.rows, effort, k)
            found[short], still = self._attempt(moment, points[short], k, effort)
            short[short] = still
        if short.any():
            found[short] = self._rows.exact.at(moment.rows).search(points[short].astype(np.float64), k)
        return found

    def _attempt(self, moment: Moment, points: Vectors, k: int, effort: Effort) -> tuple[Ids, npt.NDArray[np.bool_]]:
        """Return rows (batch, k), and which of the batch are short of k distinct ones."""
        wanted = min(moment.rows.size, math.ceil(k * effort.overfetch) + moment.unskipped)
        found = self._candidates(moment, points, wanted, effort)
        if moment.later is not None:
            found = np.concatenate([found, moment.nearest_later(points, k)], axis=1)
        return refine(moment.rows, points, found, k)

    def _breadth(self, rows: Rows, wanted: int, effort: Effort) -> tuple[int, int]:
        """Return nprobe and efSearch."""
        nprobe = effort.nprobe or max(MIN_NPROBE, math.ceil(SCANNED_PER_NEIGHBOUR * wanted * self.lists / rows.n))
        ef_search = max(wanted, effort.ef_search or MIN_EF_SEARCH)  # FAISS pads with -1 beyond efSearch
        return min(self.lists, nprobe), min(rows.size, ef_search)

    def _widen(self, rows: Rows, effort: Effort, k: int) -> tuple[Effort, bool]:
        """Return more effort, and whether it is the most there is."""
        nprobe, ef_search = (WIDENING * value for value in self._breadth(rows, k, effort))
        is_widest = nprobe >= self.lists if self.kind == "IVF" else ef_search >= rows.size
        return replace(effort, nprobe=nprobe, ef_search=ef_search), is_widest
