"""Approximate nearest neighbours by FAISS, completed so that k distinct neighbours always come back."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Vectors, check_k, check_queries
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.rank import rank
from wolpertinger.index.store import Store, as_store
from wolpertinger.threads import count_threads, divide

EXAMPLES = '"Flat", "IVF256,Flat", "HNSW32", "IVF256,SQ8" or "IVF256,PQ10x4fs"'
WIDEN = 4  # times as many lists or candidates, when a search came back short
LEAST_NPROBE = 16
LEAST_EF_SEARCH = 64
SCANNED_PER_NEIGHBOUR = 8  # rows an inverted-file search looks at, for each neighbour wanted
LEAST_QUERIES = 8  # a thread: below, handing over costs more than it gains
# Of k-means: rows for each list, and rounds. Recall of 300,000 x 20 at 8, 32, 128 of 512 lists: 0.423, 0.760, 0.981;
# with FAISS's own 256 and 25, in 6 times the time, 0.428, 0.755, 0.979.
TRAINING_ROWS, TRAINING_ROUNDS = 32, 6
LEAST_TRAINING_ROWS = 1 << 16
MOST_UNSKIPPED = 16  # rows for each neighbour wanted, removed but coming back: beyond, a scan is quicker
TIMED_ROWS = 1 << 11  # assigned to lists once, to foresee how long k-means takes
ADDED_ROWS = 1 << 20  # at a time
LARGEST = 1e17  # coordinate whose squares FAISS can sum in float32; its k-means ends the process where they overflow
FIRST_ROWS = 1 << 12  # after which the time of building is foreseen


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


class TooSlowError(RuntimeError):
    """Building would take longer than was allowed."""

    def __init__(self, expected: float, allowed: float) -> None:
        super().__init__(
            f"building it would take about {expected:.0f} s, {max(0.0, allowed):.0f} s are left to build in"
        )
        self.expected = expected


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
            self._faiss = _build(self._store, recipe, build_seconds, centroids)
        else:
            self._faiss = _read(built, self._store, recipe)
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
        if _inverted_file(self._faiss) is not None:
            return "IVF"
        return "HNSW" if isinstance(_innermost(self._faiss), faiss.IndexHNSW) else "flat"

    @cached_property
    def lists(self) -> int:
        """Of the inverted file; 1 if there is none."""
        return getattr(_inverted_file(self._faiss), "nlist", 1)

    @property
    def centroids(self) -> Vectors | None:
        """Of the lists (lists, dim), for another index with as many; None if there are no lists."""
        inverted_file = _inverted_file(self._faiss)
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
        parts = divide(lambda rows: self._search(points[rows], k), len(points), least=LEAST_QUERIES)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def candidates(self, points: Vectors, wanted: int, effort: Effort) -> Ids:
        """Ids (batch, wanted) by FAISS's own distances, nearest first, -1 where it found fewer."""
        params = self._params.get((wanted, effort))
        if params is None:
            params = _search_params(self._faiss, *self._breadth(wanted, effort), self._selector)
            self._params[wanted, effort] = params
        with _threads(1):
            return self._faiss.search(_limit(points), wanted, params=params)[1]

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
            _add(self._faiss, self._store, self._faiss.ntotal)  # another effort's twin may have added them already
            self._overflows = self._overflows or _reach(self._store, self._seen) > LARGEST
            self._seen = self._store.size
            removed = self._store.removed
            self._selector = _skip(self._faiss, removed, self._store) if len(removed) else None
            self._unskipped = 0 if self._selector is not None else len(removed)
            self._params = {}
            self._version = self._store.version


def _build(store: Store, recipe: str, seconds: float, centroids: Vectors | None) -> Any:
    """A trained and filled FAISS index, or TooSlowError as soon as it is clear that `seconds` are not enough."""
    start = time.perf_counter()
    try:
        index = faiss.index_factory(store.dim, recipe, faiss.METRIC_L2)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"index={recipe!r} is not a recipe FAISS can build for {store.dim} dimensions: "
            f'give "exact", "auto" or a FAISS recipe such as {EXAMPLES}'
        ) from error
    rows = LEAST_TRAINING_ROWS
    if (inverted_file := _inverted_file(index)) is not None:
        rows = max(rows, TRAINING_ROWS * inverted_file.nlist)
        inverted_file.cp.max_points_per_centroid = TRAINING_ROWS
        inverted_file.cp.niter = TRAINING_ROUNDS
        inverted_file.cp.min_points_per_centroid = 1  # else FAISS prints a warning about small tables to stderr
        if centroids is not None and len(centroids) == inverted_file.nlist:
            inverted_file.quantizer.add(centroids)
    if hasattr(codes := _innermost(index), "pq"):
        codes.pq.cp.min_points_per_centroid = 1
        codes.pq.cp.niter = TRAINING_ROUNDS
    try:
        with _threads(count_threads()):
            sample = _sample(store, rows)
            if centroids is None and (expected := _training_seconds(inverted_file, sample)) > seconds:
                raise TooSlowError(expected, seconds)
            index.train(sample)
            _fill(index, store, start, seconds)
            index.search(_limit(store.take(np.zeros(1, np.int64))), 1)  # a recipe such as "IVF0,Flat" fails only now
    except TooSlowError:
        raise
    except RuntimeError as error:
        raise ValueError(
            f"index={recipe!r} cannot be built on {store.size} vectors of {store.dim} dimensions: give more vectors, "
            f'a smaller recipe (such as {EXAMPLES}) or "exact". FAISS says: {error}'
        ) from error
    return index


def _training_seconds(inverted_file: Any, sample: Vectors) -> float:
    """What k-means will take, from one small step of it: FAISS cannot be stopped once it trains."""
    if inverted_file is None or len(sample) < TIMED_ROWS:
        return 0.0
    centroids = faiss.IndexFlatL2(sample.shape[1])
    centroids.add(sample[: inverted_file.nlist])
    start = time.perf_counter()
    centroids.search(sample[:TIMED_ROWS], 1)
    return (time.perf_counter() - start) * TRAINING_ROUNDS * len(sample) / TIMED_ROWS


def _sample(store: Store, rows: int) -> Vectors:
    """Rows to train on: a part of a large table, always the same."""
    if store.n <= rows:
        return _limit(store.take(store.ids))
    places = np.sort(np.random.default_rng(0).choice(store.n, rows, replace=False, shuffle=False))
    return _limit(store.take(places if store.n == store.size else store.ids[places]))


def _reach(store: Store, start: int) -> float:
    """Largest coordinate, up or down, of the rows from `start` on."""
    blocks = (store.rows(block) for block in store.blocks(ADDED_ROWS, start))
    return max((max(float(rows.max()), -float(rows.min())) for rows in blocks), default=0.0)


def _limit(rows: Vectors) -> Vectors:
    """Rows as FAISS can take them: as they are, if their squares do not overflow."""
    return np.clip(rows, -LARGEST, LARGEST) if rows.size and max(rows.max(), -rows.min()) > LARGEST else rows


def _fill(index: Any, store: Store, start: float, seconds: float) -> None:
    """Put all rows in, the row with id i as FAISS's id i, also if it was removed."""
    trained = time.perf_counter()
    rows = ADDED_ROWS if math.isinf(seconds) else max(FIRST_ROWS, store.size // 64)
    for block in store.blocks(rows):
        index.add(_limit(store.rows(block)))
        filling = (time.perf_counter() - trained) * store.size / block.stop
        expected = trained - start + filling
        if expected > seconds and block.stop < store.size:
            raise TooSlowError(expected, seconds)


def _add(index: Any, store: Store, start: int) -> None:
    """Put what was added to the store since it had `start` rows into the index."""
    with _threads(count_threads()):
        for block in store.blocks(ADDED_ROWS, start):
            index.add(_limit(store.rows(block)))


def _read(data: npt.NDArray[np.uint8], store: Store, recipe: str) -> Any:
    try:
        index = faiss.deserialize_index(data)
    except RuntimeError as error:
        raise ValueError(f"the saved index {recipe!r} cannot be read: {error}") from error
    fresh = faiss.index_factory(store.dim, recipe, faiss.METRIC_L2)
    made = _kinds(fresh)
    if _kinds(index) != made:  # it may keep its lists in a file of its own choice, say, and write to that
        raise ValueError(f"the saved index is {_kinds(index)}, {recipe!r} makes {made}")
    if index.d != store.dim or not 0 < index.ntotal <= store.size or not index.is_trained:
        raise ValueError(
            f"the saved index {recipe!r} holds {index.ntotal} vectors of {index.d} dimensions, "
            f"the table {store.size} of {store.dim}"
        )
    return index


def _skip(index: Any, removed: Ids, store: Store) -> Any:
    """What makes FAISS leave out removed rows, or None if this kind of index cannot."""
    bits = np.packbits(~np.isin(np.arange(store.size), removed), bitorder="little")
    selector = faiss.IDSelectorBitmap(bits)
    try:
        with _threads(1):
            index.search(_limit(store.take(store.ids[:1])), 1, params=_search_params(index, 1, 1, selector))
    except RuntimeError:
        return None
    return selector


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """FAISS with n threads, in this thread only."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _kinds(index: Any) -> list[str]:
    """The types of an index, of what is inside it, and of its lists."""
    known = faiss.downcast_index(index)  # `index` itself must stay: it may be the only one that owns the memory
    kinds = [f"{type(known).__name__.removesuffix('L2')} {known.metric_type}"]
    if isinstance(known, faiss.IndexIVF):
        kinds += [type(faiss.downcast_InvertedLists(known.invlists)).__name__, *_kinds(known.quantizer)]
    for name in ("index", "base_index", "refine_index", "storage"):
        if (inner := getattr(known, name, None)) is not None:
            kinds += _kinds(inner)
    return kinds


def _inverted_file(index: Any) -> Any:
    """The inverted file inside a FAISS index, or None."""
    return faiss.try_extract_index_ivf(index)


def _innermost(index: Any) -> Any:
    """The index that searches, inside those that transform vectors or re-rank results."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        return _innermost(index.index)
    if isinstance(index, faiss.IndexRefine):
        return _innermost(index.base_index)
    return index


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
