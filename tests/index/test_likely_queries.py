"""Queries to tune on before real ones arrive."""

import numpy as np
import pytest

from wolpertinger.index import Store
from wolpertinger.index.likely_queries import likely_queries


@pytest.mark.parametrize("scale", [1.0, 1e30, 3e37])
def test_likely_queries_lie_in_the_box_of_the_table(scale):
    vectors = np.random.default_rng(0).normal(size=(2_000, 8)).astype(np.float32)
    store = Store(vectors * np.float32(scale))
    store.remove(np.arange(1_000))
    queries = likely_queries(store, 500)
    assert (queries.shape, queries.dtype) == ((500, 8), np.float32)
    assert (queries >= store.reduce(np.minimum)).all()
    assert (queries <= store.reduce(np.maximum)).all()
    np.testing.assert_array_equal(queries, likely_queries(store, 500))
    assert len(np.unique(queries[:, 0])) > 100
