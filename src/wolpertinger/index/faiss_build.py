"""Making FAISS indexes: by recipe within a time, and from bytes that were saved."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import torch

from wolpertinger.index.base import Vectors
from wolpertinger.index.store import Store
from wolpertinger.threads import count_threads, is_forked

EXAMPLES = '"Flat", "IVF256,Flat", "HNSW32", "IVF256,SQ8" or "IVF256,PQ10x4fs"'
# Of k-means: rows for each list, and rounds. Recall of 300,000 x 20 at 8, 32, 128 of 512 lists: 0.423, 0.760, 0.981;
# with FAISS's own 256 and 25, in 6 times the time, 0.428, 0.755, 0.979.
TRAINING_ROWS, TRAINING_ROUNDS = 32, 6
LEAST_TRAINING_ROWS = 1 << 16
TIMED_ROWS = 1 << 11  # assigned to lists once, to foresee how long k-means takes
ADDED_ROWS = 1 << 20  # at a time
LARGEST = 1e17  # coordinate whose squares FAISS can sum in float32; its k-means ends the process where they overflow
FIRST_ROWS = 1 << 12  # after which the time of building is foreseen


class TooSlowError(RuntimeError):
    """Building would take longer than was allowed."""

    def __init__(self, expected: float, allowed: float) -> None:
        super().__init__(
            f"building it would take about {expected:.0f} s, {max(0.0, allowed):.0f} s are left to build in"
        )
        self.expected = expected


def build(store: Store, recipe: str, seconds: float, centroids: Vectors | None) -> Any:
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
    if (inverted_file := find_lists(index)) is not None:
        rows = max(rows, TRAINING_ROWS * inverted_file.nlist)
        inverted_file.cp.max_points_per_centroid = TRAINING_ROWS
        inverted_file.cp.niter = TRAINING_ROUNDS
        inverted_file.cp.min_points_per_centroid = 1  # else FAISS prints a warning about small tables to stderr
        if hasattr(quantizer := faiss.downcast_index(inverted_file.quantizer), "pq"):
            quantizer.pq.cp.min_points_per_centroid = 1
    if hasattr(codes := innermost(index), "pq"):
        codes.pq.cp.min_points_per_centroid = 1
        codes.pq.cp.niter = TRAINING_ROUNDS
    try:
        with faiss_threads(_building_threads()):
            if centroids is not None and inverted_file is not None and len(centroids) == inverted_file.nlist:
                inverted_file.quantizer.train(centroids)  # if they are kept as codes
                inverted_file.quantizer.add(centroids)
            sample = _sample(store, rows)
            if centroids is None and (expected := _training_seconds(inverted_file, sample)) > seconds:
                raise TooSlowError(expected, seconds)
            index.train(sample)
            _fill(index, store, start, seconds)
            index.search(limit(store.take(np.zeros(1, np.int64))), 1)  # a recipe such as "IVF0,Flat" fails only now
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
        return limit(store.take(store.ids))
    places = np.sort(np.random.default_rng(0).choice(store.n, rows, replace=False, shuffle=False))
    return limit(store.take(places if store.n == store.size else store.ids[places]))


def reach(store: Store, start: int) -> float:
    """Largest coordinate, up or down, of the rows from `start` on."""
    blocks = (store.rows(block) for block in store.blocks(ADDED_ROWS, start))
    return max((max(float(rows.max()), -float(rows.min())) for rows in blocks), default=0.0)


def limit(rows: Vectors) -> Vectors:
    """Rows as FAISS can take them: as they are, if their squares do not overflow."""
    return np.clip(rows, -LARGEST, LARGEST) if rows.size and max(rows.max(), -rows.min()) > LARGEST else rows


def _fill(index: Any, store: Store, start: float, seconds: float) -> None:
    """Put all rows in, the row with id i as FAISS's id i, also if it was removed."""
    trained = time.perf_counter()
    rows = ADDED_ROWS if math.isinf(seconds) else max(FIRST_ROWS, store.size // 64)
    for block in store.blocks(rows):
        index.add(limit(store.rows(block)))
        filling = (time.perf_counter() - trained) * store.size / block.stop
        expected = trained - start + filling
        if expected > seconds and block.stop < store.size:
            raise TooSlowError(expected, seconds)


def add_rows(index: Any, store: Store, start: int) -> None:
    """Put what was added to the store since it had `start` rows into the index."""
    with faiss_threads(_building_threads()):
        for block in store.blocks(ADDED_ROWS, start):
            index.add(limit(store.rows(block)))


def read(data: npt.NDArray[np.uint8], store: Store, recipe: str) -> Any:
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


def divides_itself() -> bool:
    """Whether FAISS may divide a search: it has torch's own threads, which are awake."""
    return not is_forked() and _shares_openmp()


@cache
def _shares_openmp() -> bool:
    """Whether FAISS and torch have the same OpenMP, as on Linux, if torch was imported first: what the one says of the
    number of threads the other hears.
    """
    before = torch.get_num_threads()
    with faiss_threads(before + 1):
        return torch.get_num_threads() == before + 1


def _building_threads() -> int:
    return 1 if is_forked() else count_threads()


@contextmanager
def faiss_threads(n: int) -> Iterator[None]:
    """FAISS with n threads, in this thread only."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def find_lists(index: Any) -> Any:
    """The inverted file inside a FAISS index, or None."""
    return faiss.try_extract_index_ivf(index)


def innermost(index: Any) -> Any:
    """The index that searches, inside those that transform vectors or re-rank results."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        return innermost(index.index)
    if isinstance(index, faiss.IndexRefine):
        return innermost(index.base_index)
    return index
