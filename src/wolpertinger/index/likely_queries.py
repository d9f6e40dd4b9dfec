"""Synthetic queries to tune an index on before real ones arrive."""

import numpy as np

from wolpertinger.index.base import Vectors
from wolpertinger.index.store import Rows

NOISE = 0.5  # in standard deviations of the table, per dimension
MIN_SAMPLED_ROWS = 4_096  # to estimate those from


def likely_queries(store: Rows, count: int, seed: int = 0) -> Vectors:
    """Draw what an exploring actor may ask for: rows plus noise in proportion to each dimension's spread, clipped to
    the rows' box.
    """
    rng = np.random.default_rng(seed)
    places = rng.integers(store.n, size=max(count, MIN_SAMPLED_ROWS))
    rows = store.take(places if store.n == store.size else store.ids[places]).astype(np.float64)  # float32 may overflow
    noise = NOISE * rows.std(axis=0) * rng.standard_normal((count, store.dim))
    return np.clip(rows[:count] + noise, rows.min(axis=0), rows.max(axis=0)).astype(np.float32)
