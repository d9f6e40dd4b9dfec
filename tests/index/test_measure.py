import numpy as np
import pytest

from wolpertinger.index import ExactIndex
from wolpertinger.index.measure import recall


def random_table(n, dim=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


def count_one_by_one(vectors, queries, found, exact):
    """The definition in words, one id at a time."""
    recalls = []
    for query, ids, truth in zip(queries.astype(np.float64), found, exact, strict=True):
        distance = {i: ((vectors[i].astype(np.float64) - query) ** 2).sum() for i in range(len(vectors))}
        farthest = max(distance[i] for i in truth)
        recalls.append(sum(distance[i] <= farthest * (1 + 1e-5) for i in set(ids) - {-1}) / len(truth))
    return np.array(recalls)


@pytest.mark.parametrize("k", [1, 7, 200])
def test_recall_is_what_counting_one_by_one_gives(k):
    vectors, queries = random_table(200), random_table(20, seed=1)
    vectors[50:100] = vectors[:50]  # ties
    exact = ExactIndex(vectors).search(queries, k)
    found = np.random.default_rng(2).integers(-1, 200, size=exact.shape)
    found[:10] = exact[:10]
    found[:5, 0] = -1
    np.testing.assert_allclose(recall(vectors, queries, found, exact), count_one_by_one(vectors, queries, found, exact))


def test_the_truth_has_recall_one():
    vectors, queries = random_table(100), random_table(8, seed=1)
    exact = ExactIndex(vectors).search(queries, 10)
    np.testing.assert_array_equal(recall(vectors, queries, exact[:, ::-1], exact), 1.0)


def test_a_duplicate_of_the_nearest_row_is_as_good():
    vectors = np.array([[0.0], [0.0], [1.0]], np.float32)
    queries = np.array([[0.1], [0.0]], np.float32)
    exact = ExactIndex(vectors).search(queries, 1)
    np.testing.assert_array_equal(recall(vectors, queries, np.array([[1], [2]]), exact), [1.0, 0.0])


def test_nothing_found_and_an_id_twice_are_no_finds():
    vectors = np.arange(5, dtype=np.float32)[:, None]
    exact = np.array([[0, 1], [0, 1]])
    found = np.array([[0, -1], [1, 1]])
    np.testing.assert_array_equal(recall(vectors, np.zeros((2, 1)), found, exact), [0.5, 0.5])
