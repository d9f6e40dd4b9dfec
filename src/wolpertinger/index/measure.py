"""How much of the truth a search found."""

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, check_queries, squared_distances

ROUNDING = 1e-6  # relative: distances closer than this are one distance in float32


def recall(vectors: npt.NDArray[np.float32], queries: npt.ArrayLike, found: Ids, exact: Ids) -> npt.NDArray[np.float64]:
    """Share of the k nearest that each query (batch, dim) found: (batch,), from ids `found` and `exact` (batch, k).

    An id is right if it lies no farther than the k-th of `exact`, so equal distances count alike. -1 stands for
    nothing found, and an id that comes twice counts once.
    """
    if found.shape != exact.shape:
        raise ValueError(f"found has shape {found.shape} and exact {exact.shape}: give the same k and queries")
    points = check_queries(queries, vectors.shape[1]).astype(np.float32).astype(np.float64)
    distances = _distances(vectors, points, np.maximum(found, 0))
    farthest = _distances(vectors, points, exact).max(axis=1, keepdims=True)
    order = np.argsort(found, axis=1, kind="stable")
    ids = np.take_along_axis(found, order, axis=1)
    right = np.take_along_axis(distances, order, axis=1) <= farthest * (1 + ROUNDING)
    right &= ids >= 0
    right[:, 1:] &= ids[:, 1:] != ids[:, :-1]
    return right.mean(axis=1)


def _distances(vectors: npt.NDArray[np.float32], points: npt.NDArray[np.float64], ids: Ids) -> npt.NDArray[np.float64]:
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    return squared_distances(vectors, points, rows, ids.ravel()).reshape(ids.shape)
