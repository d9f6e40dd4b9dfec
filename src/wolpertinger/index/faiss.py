"""Approximate nearest neighbours by FAISS, completed so that k distinct neighbours always come back."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from math import ceil
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, check_k, check_queries, check_vectors, rank
from wolpertinger.index.exact import ExactIndex

EXAMPLES = '"Flat", "IVF256,Flat", "HNSW32", "IVF256,SQ8" or "PQ10"'
WIDEN = 4  # times as many lists or candidates, when a search came back short
LEAST_NPROBE = 16
LEAST_EF_SEARCH = 64
SCANNED_PER_NEIGHBOUR = 8  # rows an inverted-file search looks at, for each neighbour wanted


class FaissIndex:
    """k near rows of a table by any FAISS `index_factory` recipe, sorted by exact distance, ties by id.

    `nprobe` (IVF) and `ef_search` (HNSW) follow k unless given; a search that comes back short is widened.
    """

    def __init__(
        self, vectors: npt.ArrayLike, recipe: str, *, nprobe: int | None = None, ef_search: int | None = None
    ) -> None:
        self._vectors = check_vectors(vectors)
        self._recipe = recipe
        self._nprobe = nprobe
        self._ef_search = ef_search
        self._faiss = _build(self._vectors, recipe)

    @property
    def n(self) -> int:
        """Rows of the table."""
        return len(self._vectors)

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self._vectors.shape[1]

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Ids (batch, k) of rows near each query (batch, dim), sorted by L2 distance, ties by id."""
        k = check_k(k, self.n)
        points = check_queries(queries, self.dim).astype(np.float32)
        found = np.empty((len(points), k), np.int64)
        short = np.arange(len(points))  # queries still without k neighbours
        effort, widest = 1, False
        while len(short) and not widest:
            params, widest = _search_params(self._faiss, *self._breadth(k, effort))
            found[short] = self._faiss.search(points[short], k, params=params)[1]
            short = short[_is_short(found[short])]
            effort *= WIDEN
        if len(short):
            found[short] = self._exact.search(points[short], k)
        return rank(self._vectors, points.astype(np.float64), found)

    def _breadth(self, k: int, effort: int) -> tuple[int, int]:
        """Lists to probe and candidates to hold for k neighbours, at the first (1) or a wider effort."""
        lists = getattr(_inverted_file(self._faiss), "nlist", 1)
        nprobe = self._nprobe or max(LEAST_NPROBE, ceil(SCANNED_PER_NEIGHBOUR * k * lists / self.n))
        ef_search = max(k, self._ef_search or LEAST_EF_SEARCH)  # FAISS pads with -1 beyond efSearch
        return min(lists, nprobe * effort), min(self.n, ef_search * effort)

    @cached_property
    def _exact(self) -> ExactIndex:
        return ExactIndex(self._vectors)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let FAISS use so many threads for a while."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _build(vectors: npt.NDArray[np.float32], recipe: str) -> Any:
    """A trained and filled FAISS index."""
    n, dim = vectors.shape
    try:
        index = faiss.index_factory(dim, recipe, faiss.METRIC_L2)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"index={recipe!r} is not a recipe FAISS can build for {dim} dimensions: "
            f'give "exact", "auto" or a FAISS recipe such as {EXAMPLES}'
        ) from error
    if (inverted_file := _inverted_file(index)) is not None:
        inverted_file.cp.min_points_per_centroid = 1  # else FAISS prints a warning about small tables to stderr
    try:
        index.train(vectors)
        index.add(vectors)
        index.search(vectors[:1], 1)  # a recipe such as "IVF0,Flat" fails only now
    except RuntimeError as error:
        raise ValueError(
            f"index={recipe!r} cannot be built on {n} vectors of {dim} dimensions: give more vectors, "
            f'a smaller recipe (such as {EXAMPLES}) or "exact". FAISS says: {error}'
        ) from error
    return index


def _inverted_file(index: Any) -> Any:
    """The inverted file inside a FAISS index, or None."""
    return faiss.try_extract_index_ivf(index)


def _search_params(index: Any, nprobe: int, ef_search: int) -> tuple[Any, bool]:
    """FAISS parameters for one call, so that the index itself never changes; and whether there is nothing wider."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        inner, widest = _search_params(index.index, nprobe, ef_search)
        return faiss.SearchParametersPreTransform(index_params=inner), widest
    if isinstance(index, faiss.IndexRefine):
        inner, widest = _search_params(index.base_index, nprobe, ef_search)
        return faiss.IndexRefineSearchParameters(k_factor=index.k_factor, base_index_params=inner), widest
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(nprobe=nprobe), nprobe >= index.nlist
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(efSearch=ef_search), ef_search >= index.ntotal
    return None, True


def _is_short(ids: Ids) -> npt.NDArray[np.bool_]:
    """Rows (batch,) that hold padding (-1) or an id twice."""
    ordered = np.sort(ids, axis=1)
    return (ordered[:, 0] < 0) | (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
