from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.lookup.sets import SETS, plans
from wolpertinger.envs import completejourney

DIMS = {"recommender-20": 20, "recommender-200": 200, "clustered": 20, "isotropic": 20, "plans": 20}


@pytest.fixture
def catalogue(monkeypatch):
    """Items of the right shape in no time."""

    def load(items, dim):
        return SimpleNamespace(vectors=np.random.default_rng(9).normal(size=(items, dim)))

    monkeypatch.setattr(completejourney, "load_complete_journey", load)


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize("name", DIMS)
def test_every_set_has_a_small_version_and_seeded_queries(name):
    small, dim = SETS[name](rows=1_100), DIMS[name]
    assert small.name == name
    assert small.vectors.shape == ((1_024 if name == "plans" else 1_100), dim)
    assert small.vectors.dtype == np.float32
    assert small.vectors.flags.c_contiguous
    queries = small.queries(50, seed=1)
    assert queries.shape == (50, dim)
    assert queries.dtype == np.float32
    np.testing.assert_array_equal(queries, small.queries(50, seed=1))
    assert not (queries == small.queries(50, seed=2)).all(axis=1).any()
    assert np.abs(small.vectors[:50] - small.queries(50, seed=0)).max() > 0.1  # no query is a copy of the table


def test_plans_are_all_different_and_one_hot():
    vectors = plans(rows=16).vectors
    assert len({tuple(row) for row in vectors}) == 16
    np.testing.assert_array_equal(vectors.reshape(16, 4, 2).sum(axis=2), 1)
    with pytest.raises(ValueError, match="rows=1 is too few: there are 2 plans of one move"):
        plans(rows=1)
