"""Clusters of action vectors, by k-means: memory grows with the vectors that are given, not with A."""

import numpy as np
import numpy.typing as npt

ROUNDS, SAMPLE = 20, 2**14
ROWS_AT_ONCE = 2**14

Vectors = npt.NDArray[np.float32]


def cluster(vectors: Vectors, count: int, seed: int) -> Vectors:
    """The centres of so many clusters, or of as many as there are vectors."""
    rng = np.random.default_rng(seed)
    some = vectors if len(vectors) <= SAMPLE else vectors[rng.choice(len(vectors), SAMPLE, replace=False)]
    centres = some[rng.choice(len(some), min(count, len(some)), replace=False)]
    for _ in range(ROUNDS):
        own = nearest_centre(some, centres)
        counts = np.bincount(own, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, own, some)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres).astype(np.float32)
    return centres


def nearest_centre(vectors: Vectors, centres: Vectors) -> npt.NDArray[np.int64]:
    """The cluster of each vector."""
    squares = (centres**2).sum(axis=1)
    parts = (vectors[start : start + ROWS_AT_ONCE] for start in range(0, len(vectors), ROWS_AT_ONCE))
    return np.concatenate([(squares - 2 * part @ centres.T).argmin(axis=1) for part in parts])
