"""Build FAISS indexes: from a recipe within a time limit, or from saved bytes."""

import math
import re
import threading
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
from wolpertinger.index.store import Rows
from wolpertinger.threads import count_threads, is_forked

EXAMPLES = '"Flat", "IVF256,Flat", "HNSW32", "IVF256,SQ8" or "IVF256,PQ10x4fs"'
KMEANS_ROWS_PER_LIST, KMEANS_ITERATIONS = 32, 6  # FAISS's own 256 and 25 take longer for about the same recall
MIN_TRAINING_ROWS = 1 << 16
TIMED_ROWS = 1 << 11  # assigned to lists once, to estimate how long k-means will take
ROWS_PER_ADD = 1 << 20
FIRST_ADDED_ROWS = 1 << 12  # after which the time of the rest is estimated
MIN_LOOPS = 64  # that FAISS may go through when it reads an index: parts of it, beside lists
SIZES = ("nlist", "code_size", "by_residual", "k_factor", "M", "nbits", "qtype")  # as FAISS's indexes call them
_READING = threading.Lock()
MAX_RECIPE = 200  # characters
GRAPH, NUMBER = re.compile(r"(?:HNSW|NSG)(\d+)"), re.compile(r"\d+")
MIN_LINKS, MAX_LINKS = 2, 512  # of one level: with fewer FAISS divides by the logarithm of 1
MAX_NUMBER = 1 << 12  # in a recipe for any number of vectors
MAX_COORDINATE = 1e17  # FAISS sums squares in float32; its k-means aborts the process where they overflow


def check_recipe(recipe: str, rows: int) -> None:
    """Refuse recipes that FAISS does not refuse itself, but ends the process over, or fills the memory for."""
    accepted = f'give "exact", "auto" or a FAISS recipe such as {EXAMPLES}'
    if len(recipe) > MAX_RECIPE:
        raise ValueError(f"index={recipe[:MAX_RECIPE]!r}... is no recipe: {accepted}")
    for links in map(int, GRAPH.findall(recipe)):
        if not MIN_LINKS <= links <= MAX_LINKS:
            raise ValueError(f"index={recipe!r}: a graph of {links} links; give it {MIN_LINKS} to {MAX_LINKS}")
    if (largest := max(map(int, NUMBER.findall(recipe)), default=0)) > max(rows, MAX_NUMBER):
        raise ValueError(f"index={recipe!r} cannot be built on {rows} vectors, {largest} is too large: {accepted}")


class TooSlowError(RuntimeError):
    """Building would take longer than allowed."""

    def __init__(self, expected: float, allowed: float) -> None:
        super().__init__(
            f"building it would take about {expected:.0f} s, {max(0.0, allowed):.0f} s are left to build in"
        )
        self.expected = expected


def build(store: Rows, recipe: str, seconds: float, centroids: Vectors | None) -> Any:
    """Return a trained and filled FAISS index; raise TooSlowError as soon as it will clearly take over `seconds`."""
    check_recipe(recipe, store.n)
    start = time.perf_counter()
    try:
        index = faiss.index_factory(store.dim, recipe, faiss.METRIC_L2)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"index={recipe!r} is not a recipe FAISS can build for {store.dim} dimensions: "
            f'give "exact", "auto" or a FAISS recipe such as {EXAMPLES}'
        ) from error
    rows = _configure_training(index)
    try:
        with faiss_threads(_building_threads()):
            ivf = find_ivf(index)
            if centroids is not None and ivf is not None and len(centroids) == ivf.nlist:
                ivf.quantizer.train(centroids)  # if it stores them as codes
                ivf.quantizer.add(centroids)
            sample = _sample(store, rows)
            if centroids is None and (expected := _training_seconds(ivf, sample)) > seconds:
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


def _configure_training(index: Any) -> int:
    """Set the k-means parameters of an untrained index; return how many rows to train on."""
    rows = MIN_TRAINING_ROWS
    if (ivf := find_ivf(index)) is not None:
        rows = max(rows, KMEANS_ROWS_PER_LIST * ivf.nlist)
        ivf.cp.max_points_per_centroid = KMEANS_ROWS_PER_LIST
        ivf.cp.niter = KMEANS_ITERATIONS
        ivf.cp.min_points_per_centroid = 1  # else FAISS prints a warning about small tables to stderr
        if hasattr(quantizer := faiss.downcast_index(ivf.quantizer), "pq"):
            quantizer.pq.cp.min_points_per_centroid = 1
    if hasattr(codes := innermost(index), "pq"):
        codes.pq.cp.min_points_per_centroid = 1
        codes.pq.cp.niter = KMEANS_ITERATIONS
    return rows


def _training_seconds(ivf: Any, sample: Vectors) -> float:
    """Estimate the time of k-means from one small step of it: FAISS cannot be stopped once it trains."""
    if ivf is None or len(sample) < TIMED_ROWS:
        return 0.0
    centroids = faiss.IndexFlatL2(sample.shape[1])
    centroids.add(sample[: ivf.nlist])
    start = time.perf_counter()
    centroids.search(sample[:TIMED_ROWS], 1)
    return (time.perf_counter() - start) * KMEANS_ITERATIONS * len(sample) / TIMED_ROWS


def _sample(store: Rows, rows: int) -> Vectors:
    """Return rows to train on: all, or a fixed random sample of a large table."""
    if store.n <= rows:
        return limit(store.take(store.ids))
    places = np.sort(np.random.default_rng(0).choice(store.n, rows, replace=False, shuffle=False))
    return limit(store.take(places if store.n == store.size else store.ids[places]))


def max_coordinate(store: Rows, start: int) -> float:
    """Return the largest absolute coordinate of the rows from `start` on."""
    blocks = (store.rows(block) for block in store.blocks(ROWS_PER_ADD, start))
    return max((max(float(rows.max()), -float(rows.min())) for rows in blocks), default=0.0)


def limit(rows: Vectors) -> Vectors:
    """Clip rows to what FAISS can square in float32."""
    overflows = rows.size and max(rows.max(), -rows.min()) > MAX_COORDINATE
    return np.clip(rows, -MAX_COORDINATE, MAX_COORDINATE) if overflows else rows


def _fill(index: Any, store: Rows, start: float, seconds: float) -> None:
    """Add all rows, removed ones too, so that FAISS's ids are the store's."""
    trained = time.perf_counter()
    rows = ROWS_PER_ADD if math.isinf(seconds) else max(FIRST_ADDED_ROWS, store.size // 64)
    for block in store.blocks(rows):
        index.add(limit(store.rows(block)))
        filling = (time.perf_counter() - trained) * store.size / block.stop
        expected = trained - start + filling
        if expected > seconds and block.stop < store.size:
            raise TooSlowError(expected, seconds)


def add_rows(index: Any, store: Rows, start: int) -> None:
    """Add the rows from `start` on to the index."""
    with faiss_threads(_building_threads()):
        for block in store.blocks(ROWS_PER_ADD, start):
            index.add(limit(store.rows(block)))


def read(data: npt.NDArray[np.uint8], store: Rows, recipe: str) -> Any:
    """Deserialise a FAISS index, if it is what the recipe builds for this store.

    One that a file names has been through `check_stored`: FAISS makes whatever a recipe asks for.
    """
    try:
        with _read_limits(len(data), store.size):
            index = faiss.deserialize_index(data)
    except (RuntimeError, MemoryError) as error:
        raise ValueError(f"the saved index {recipe!r} cannot be read: {error}") from error
    fresh = faiss.index_factory(store.dim, recipe, faiss.METRIC_L2)
    expected = _kinds(fresh)
    if _kinds(index) != expected:  # other kinds could, say, keep their lists in a file of their choice and write to it
        raise ValueError(f"the saved index is {_kinds(index)}, {recipe!r} makes {expected}")
    if index.d != store.dim or not 0 < index.ntotal <= store.size or not index.is_trained:
        raise ValueError(
            f"the saved index {recipe!r} holds {index.ntotal} vectors of {index.d} dimensions, "
            f"the table {store.size} of {store.dim}"
        )
    return index


@contextmanager
def _read_limits(size: int, rows: int) -> Iterator[None]:
    """Let FAISS allocate no vector larger than the bytes that it reads, and no more lists than there are rows."""
    with _READING:  # the limits are the process's
        before = faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()
        faiss.set_deserialization_vector_byte_limit(size + 1)
        faiss.set_deserialization_loop_limit(max(rows, MIN_LOOPS))
        try:
            yield
        finally:
            faiss.set_deserialization_vector_byte_limit(before[0])
            faiss.set_deserialization_loop_limit(before[1])


def _kinds(index: Any) -> list[str]:
    """List the types of an index, of the indexes inside it, and of its lists, with the sizes that a recipe names."""
    known = faiss.downcast_index(index)  # `index` itself must stay: it may be the only one that owns the memory
    kinds = [" ".join([f"{type(known).__name__.removesuffix('L2')} {known.metric_type}", *_sizes(known)])]
    if isinstance(known, faiss.IndexIVF):
        kinds += [type(faiss.downcast_InvertedLists(known.invlists)).__name__, *_kinds(known.quantizer)]
    for name in ("index", "base_index", "refine_index", "storage"):
        if (inner := getattr(known, name, None)) is not None:
            kinds += _kinds(inner)
    return kinds


def _sizes(index: Any) -> list[str]:
    """What a recipe says in numbers: lists, bits and parts of codes, links, how many candidates are re-ranked."""
    parts = {"": index, "pq.": getattr(index, "pq", None), "sq.": getattr(index, "sq", None)}
    found = [f"{at}{name}={getattr(part, name)}" for at, part in parts.items() for name in SIZES if hasattr(part, name)]
    if (graph := getattr(index, "hnsw", None)) is not None:
        found.append(f"links={faiss.vector_to_array(graph.cum_nneighbor_per_level)[:2].tolist()}")
    return found


def divides_itself() -> bool:
    """Return whether FAISS divides searches among OpenMP threads: those of torch, and not in a forked child."""
    return not is_forked() and _shares_openmp()


@cache
def _shares_openmp() -> bool:
    """Return whether FAISS and torch are linked to the same OpenMP: setting its threads in one changes the other.

    On Linux they are, if torch was imported first.
    """
    before = torch.get_num_threads()
    with faiss_threads(before + 1):
        return torch.get_num_threads() == before + 1


def _building_threads() -> int:
    return 1 if is_forked() else count_threads()


@contextmanager
def faiss_threads(n: int) -> Iterator[None]:
    """Let FAISS use n threads when called from this thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def find_ivf(index: Any) -> Any:
    """Return the inverted file (IVF) inside a FAISS index, or None."""
    return faiss.try_extract_index_ivf(index)


def innermost(index: Any) -> Any:
    """Return the index inside those that transform vectors or re-rank results."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        return innermost(index.index)
    if isinstance(index, faiss.IndexRefine):
        return innermost(index.base_index)
    return index
