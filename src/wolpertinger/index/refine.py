"""Re-rank candidates of an approximate search by exact distances."""

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import CHUNK_BYTES, Ids, Vectors
from wolpertinger.index.store import Rows
from wolpertinger.threads import divide

MIN_BYTES_PER_THREAD = 1 << 20  # of vectors
NO_ROW = np.uint64(2**64 - 1)  # a key that sorts behind those of all rows


def refine(store: Rows, points: Vectors, candidates: Ids, k: int) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Return the k nearest (batch, k) of each query's candidates, and which rows are short of k distinct ids."""
    width = candidates.shape[1]
    if width == 1:  # nothing to choose among
        return candidates, ~store.holds(candidates)[:, 0]
    ids = np.empty((len(points), k), np.int64)
    short = np.empty(len(points), np.bool_)
    row_bytes = 4 * store.dim * max(1, width)

    def work(part: slice) -> None:
        step = max(1, CHUNK_BYTES // row_bytes)
        for start in range(part.start, part.stop, step):
            rows = slice(start, min(part.stop, start + step))
            ids[rows], short[rows] = _refine(store, points[rows], candidates[rows], k)

    divide(work, len(points), least=1 + MIN_BYTES_PER_THREAD // row_bytes)
    return ids, short


def _refine(store: Rows, points: Vectors, found: Ids, k: int) -> tuple[Ids, npt.NDArray[np.bool_]]:
    # A float32 distance and an id are packed into one integer, so that one sort orders by both: faster than an argsort.
    there = store.holds(found)
    if not (full := there.all()):
        found = np.where(there, found, 0)
    distances = candidate_distances(store, points, found)
    keys = distances.view(np.uint32).astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= found.view(np.uint64)
    if not (full and distances.max() < np.inf):  # nor NaN
        keys[~(there & np.isfinite(distances))] = NO_ROW
    if k == 1:
        keys = keys.min(axis=1, keepdims=True)
    else:
        if k < keys.shape[1]:
            keys = np.partition(keys, k - 1, axis=1)[:, :k]
        keys.sort(axis=1)
    # Equal ids have equal distances, so they stand side by side.
    short = (keys[:, -1] == NO_ROW) | (keys[:, 1:] == keys[:, :-1]).any(axis=1)
    return (keys & np.uint64(2**32 - 1)).view(np.int64), short


def candidate_distances(store: Rows, points: Vectors, ids: Ids) -> Vectors:
    """Return |x[ids[i, j]] - points[i]|^2 (batch, width), computed in float32 from differences."""
    distances = np.empty(ids.shape, np.float32)
    step = max(1, CHUNK_BYTES // (4 * store.dim * max(1, len(points))))
    for start in range(0, ids.shape[1], step):
        columns = slice(start, start + step)
        difference = store.take(ids[:, columns])
        with np.errstate(over="ignore"):
            difference -= points[:, None]
            np.einsum("bkd,bkd->bk", difference, difference, out=distances[:, columns])
    return distances
