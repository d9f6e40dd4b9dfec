"""Re-ranking candidates by whole vectors, against a sort one by one."""

import numpy as np
import pytest

from wolpertinger.index import refine as module
from wolpertinger.index.refine import candidate_distances, refine
from wolpertinger.index.store import Store


def test_the_rank_is_by_distance_then_id_and_says_what_is_short():
    store = Store(np.float32([[0], [1], [1], [3], [4], [1]]))
    store.remove([4])
    candidates = np.array([[3, 2, 0, 1, 5], [3, 3, 1, 4, -1], [4, 9, -1, 2, 0]])
    points = np.zeros((3, 1), np.float32)
    ids, short = refine(store, points, candidates, 3)
    np.testing.assert_array_equal(ids[0], [0, 1, 2])
    np.testing.assert_array_equal(short, [False, True, True])
    ids, short = refine(store, points, candidates, 2)
    np.testing.assert_array_equal(ids, [[0, 1], [1, 3], [0, 2]])
    assert not short.any()


@pytest.mark.parametrize("width", [1, 2, 7, 40])
@pytest.mark.parametrize("chunk", [1, 1 << 22])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_rank_is_that_of_a_sort_one_by_one(width, chunk, threads, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(module, "MIN_BYTES_PER_THREAD", 1)
    monkeypatch.setattr("wolpertinger.threads.count_threads", lambda: threads)
    rng = np.random.default_rng(0)
    vectors = rng.integers(-2, 3, size=(60, 3)).astype(np.float32)  # many ties
    points = rng.integers(-2, 3, size=(9, 3)).astype(np.float32)
    candidates = np.stack([rng.permutation(60)[:width] for _ in points])
    k = max(1, width // 2)
    ids, short = refine(Store(vectors), points, candidates, k)
    assert not short.any()
    for row, point in enumerate(points):
        distances = ((vectors - point) ** 2).sum(axis=1)
        assert ids[row].tolist() == sorted(candidates[row].tolist(), key=lambda i, d=distances: (d[i], i))[:k]
    expected = ((vectors[candidates] - points[:, None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(candidate_distances(Store(vectors), points, candidates), expected)
