import numpy as np

from wolpertinger.data.clusters import cluster, nearest_centre


def test_groups_that_lie_apart_are_found():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(3), 50)
    vectors = (np.array([[0, 0], [50, 0], [0, 50]])[group] + rng.normal(size=(150, 2))).astype(np.float32)
    best = min((cluster(vectors, 3, seed) for seed in range(5)), key=lambda centres: _spread(vectors, centres))
    own = nearest_centre(vectors, best)
    assert all(len(np.unique(own[group == each])) == 1 for each in range(3))
    assert len(np.unique(own)) == 3


def _spread(vectors, centres):
    return float(((vectors - centres[nearest_centre(vectors, centres)]) ** 2).sum())


def test_there_are_no_more_clusters_than_vectors():
    assert cluster(np.eye(3, dtype=np.float32), 8, seed=0).shape == (3, 3)


def test_the_nearest_centre_is_that_of_a_scan(monkeypatch):
    monkeypatch.setattr("wolpertinger.data.clusters.ROWS_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    vectors, centres = (rng.normal(size=(m, 3)).astype(np.float32) for m in (40, 5))
    expected = ((vectors[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest_centre(vectors, centres), expected)
