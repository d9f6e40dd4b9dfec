"""Measure a search: recall against the exact answer, and seconds per query."""

import statistics
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Vectors, check_queries
from wolpertinger.index.shortlist import pair_distances
from wolpertinger.index.store import Store, as_store

MIN_SECONDS, MAX_REPEATS = 0.01, 10  # of timing a quick search, as the machine may be busy
ROUNDING = 1e-12  # relative, of squared distances in float64

Recalls = npt.NDArray[np.float64]


def recall(vectors: npt.ArrayLike | Store, queries: npt.ArrayLike, found: Ids, exact: Ids) -> Recalls:
    """Return the share (batch,) of each query's k nearest that were found; any row as near as the k-th counts.

    `found` (batch, any) and `exact` (batch, k) hold ids; -1 and removed rows count as not found.
    """
    return recall_by_width(vectors, queries, found, exact)[:, -1]


def recall_by_width(vectors: npt.ArrayLike | Store, queries: npt.ArrayLike, found: Ids, exact: Ids) -> Recalls:
    """Return the recall (batch, width) of the first 1, 2, ..., width ids that were found for each query."""
    store = as_store(vectors)
    points = check_queries(queries, store.dim)
    k = exact.shape[1]
    shares = np.empty(found.shape)
    for row in range(len(points)):
        point = points[row : row + 1].astype(np.float64)
        there = store.holds(found[row])
        none = np.zeros(len(there), np.int64)
        limit = pair_distances(store, point, none[:1].repeat(k), exact[row]).max() * (1 + ROUNDING)
        near = there & (pair_distances(store, point, none, np.where(there, found[row], 0)) <= limit)
        # A row that is listed twice was found once.
        distinct = np.zeros(len(near), np.bool_)
        distinct[np.unique(found[row], return_index=True)[1]] = True
        shares[row] = np.minimum(1.0, np.cumsum(near & distinct) / k)
    return shares


def seconds_per_query(search: Callable[[Vectors], Ids], queries: Vectors, batch: int, repeats: int = 3) -> float:
    """Return the median over repeats, with different batches as far as queries go; quick searches are repeated more."""
    batch = min(batch, len(queries))
    taken: list[float] = []
    while len(taken) < repeats or (sum(taken) < MIN_SECONDS and len(taken) < MAX_REPEATS * repeats):
        start = len(taken) * batch % max(1, len(queries) - batch + 1)
        points = queries[start : start + batch]
        begin = time.perf_counter()
        search(points)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) / batch
