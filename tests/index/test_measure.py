"""Recall against sets, one query at a time."""

import time

import numpy as np
import pytest

from wolpertinger.index import ExactIndex, Store
from wolpertinger.index.measure import recall, recall_by_width, seconds_per_query


def by_sets(found, exact):
    return [len(set(a.tolist()) & set(b.tolist())) / len(b) for a, b in zip(found, exact, strict=True)]


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)


@pytest.fixture
def queries():
    return np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)


@pytest.mark.parametrize("k", [1, 5, 50])
def test_recall_is_the_share_of_the_set(vectors, queries, k):
    exact = ExactIndex(vectors).search(queries, k)
    found = np.stack([np.random.default_rng(i).permutation(200)[:80] for i in range(20)])
    found[::2, :k] = exact[::2]  # half of them know all
    np.testing.assert_allclose(recall(vectors, queries, found, exact)[1::2], by_sets(found, exact)[1::2])
    np.testing.assert_array_equal(recall(vectors, queries, found, exact)[::2], 1)


def test_recall_by_width_is_the_recall_of_every_beginning(vectors, queries):
    exact = ExactIndex(vectors).search(queries, 7)
    found = np.stack([np.random.default_rng(i).permutation(200)[:80] for i in range(20)])
    by_width = recall_by_width(vectors, queries, found, exact)
    assert by_width.shape == (20, 80)
    for width in (1, 2, 40, 80):
        np.testing.assert_allclose(by_width[:, width - 1], by_sets(found[:, :width], exact))


def test_any_row_as_near_as_the_last_counts():
    vectors = np.float32([[0], [1], [-1], [1], [2]])
    exact = ExactIndex(vectors).search([[0.0]], 2)
    np.testing.assert_array_equal(exact, [[0, 1]])
    for other in (1, 2, 3):
        np.testing.assert_array_equal(recall(vectors, [[0.0]], np.array([[0, other]]), exact), [1])
    np.testing.assert_array_equal(recall(vectors, [[0.0]], np.array([[0, 4]]), exact), [0.5])
    np.testing.assert_array_equal(recall(vectors, [[0.0]], np.array([[1, 2, 3]]), exact), [1])  # 3 of 2 are no more


def test_identical_vectors_are_as_good_as_each_other():
    vectors = np.ones((50, 3), np.float32)
    found = np.array([[40, 41, 49]])
    np.testing.assert_array_equal(recall(vectors, np.zeros((1, 3)), found, np.array([[0, 1, 2]])), [1])
    np.testing.assert_array_equal(recall(vectors, np.ones((1, 3)), found, np.array([[0, 1, 2]])), [1])


def test_none_and_the_same_again_count_for_nothing(vectors, queries):
    exact = ExactIndex(vectors).search(queries[:1], 4)
    a, b, c, _ = exact[0]
    for found, expected in [([-1, -1, -1, -1], 0), ([a, a, a, a], 0.25), ([a, -1, b, a], 0.5), ([c, -1, c, b], 0.5)]:
        np.testing.assert_array_equal(recall(vectors, queries[:1], np.array([found]), exact), [expected])


def test_removed_rows_count_for_nothing(vectors, queries):
    """FAISS's fast-scan codes cannot skip them, and they counted as found."""
    store = Store(vectors)
    before = ExactIndex(store).search(queries, 10)
    store.remove(np.unique(before[:, :5]))
    exact = ExactIndex(store).search(queries, 10)
    assert (recall(store, queries, before, exact) <= 0.5).all()
    np.testing.assert_allclose(recall(store, queries, before, exact), by_sets(before, exact))


def test_distances_that_overflow_are_no_warning():
    vectors = np.float32([[3e38], [-3e38], [1e30]])
    exact = ExactIndex(vectors).search([[-3e38]], 1)
    np.testing.assert_array_equal(recall(vectors, [[-3e38]], np.array([[1]]), exact), [1])


def test_the_time_is_a_querys_and_the_batches_differ(monkeypatch):
    asked = []
    monkeypatch.setattr(time, "perf_counter", lambda: 0.001 * len(asked))

    def search(points):
        asked.append(points[:, 0].tolist())

    seconds = seconds_per_query(search, np.arange(6, dtype=np.float32)[:, None], batch=2, repeats=3)
    assert seconds == pytest.approx(0.0005)  # of two that took a millisecond together
    assert asked[:3] == [[0, 1], [2, 3], [4, 5]]
    assert len(asked) > 3  # quick ones are repeated more
    seconds_per_query(search, np.zeros((1, 1), np.float32), batch=64, repeats=1)
    assert asked[-1] == [0]
