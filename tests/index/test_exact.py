"""The exact scan against brute force where float32 would be wrong."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wolpertinger.index import ExactIndex, Store, exact, shortlist
from wolpertinger.threads import using_threads


def brute_force(vectors, queries, k):
    """Sorted by (distance, id), in exact arithmetic."""
    found = []
    for query in queries:
        distances = [
            sum((Fraction(float(x)) - Fraction(float(q))) ** 2 for x, q in zip(row, query, strict=True))
            for row in vectors
        ]
        found.append(sorted(range(len(vectors)), key=lambda i, d=distances: (d[i], i))[:k])
    return np.array(found)


LATTICE = st.integers(-3, 3).map(float)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_ties_at_the_cut_off_are_exact(data):
    n, dim = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 4))
    vectors = data.draw(hnp.arrays(np.float32, (n, dim), elements=LATTICE))
    queries = data.draw(hnp.arrays(np.float32, (3, dim), elements=LATTICE))
    offset = np.float32(data.draw(st.sampled_from([0, 1024, -(2**20)])))
    k = data.draw(st.integers(1, n))
    found = ExactIndex(vectors + offset).search(queries + offset, k)
    np.testing.assert_array_equal(found, brute_force(vectors, queries, k))


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-3, 1.0, 1e15, 1e19, 1e37])
def test_no_scale_loses_neighbours(scale):
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(60, 3)) * scale).astype(np.float32)
    queries = (rng.normal(size=(4, 3)) * scale).astype(np.float32)
    np.testing.assert_array_equal(ExactIndex(vectors).search(queries, 20), brute_force(vectors, queries, 20))


@pytest.mark.parametrize("query_at", [0.0, 1e4, 1e9])
def test_a_table_or_a_query_far_from_the_origin_loses_nothing(query_at):
    rng = np.random.default_rng(0)
    vectors = (1e4 + rng.normal(size=(200, 3))).astype(np.float32)
    queries = (query_at + rng.normal(size=(4, 3))).astype(np.float32)
    np.testing.assert_array_equal(ExactIndex(vectors).search(queries, 20), brute_force(vectors, queries, 20))


def test_blocks_of_queries_and_rows_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    vectors = rng.integers(-2, 3, size=(500, 3)).astype(np.float32)  # many ties
    queries = rng.integers(-2, 3, size=(7, 3)).astype(np.float32)
    whole = ExactIndex(vectors).search(queries, 60)
    monkeypatch.setattr(exact, "BLOCK_BYTES", 4 * 37)
    np.testing.assert_array_equal(ExactIndex(vectors).search(queries, 60), whole)
    np.testing.assert_array_equal(ExactIndex(vectors).search(queries, 500)[:, :60], whole)


@pytest.mark.parametrize("sampled", ["like the others", "nearest", "farthest"])
@pytest.mark.parametrize("k", [1, 30])
def test_a_sample_that_misleads_loses_nothing(sampled, k, monkeypatch):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4_000, 3)).astype(np.float32)
    factor = {"like the others": 1, "nearest": 0.01, "farthest": 100}[sampled]
    vectors[:: shortlist.SAMPLED] *= factor
    queries = (rng.normal(size=(6, 3)) / 10).astype(np.float32)
    guessed = []
    monkeypatch.setattr(exact, "search_rows", lambda *args: None)  # as in tables of several blocks
    guess = shortlist.Shortlist._take_by_estimate
    monkeypatch.setattr(
        shortlist.Shortlist, "_take_by_estimate", lambda *args: guessed.append(guess(*args)) or guessed[-1]
    )
    np.testing.assert_array_equal(ExactIndex(vectors).search(queries, k), brute_force(vectors, queries, k))
    assert guessed == [sampled == "like the others" or (sampled == "nearest" and k == 1)]


@pytest.mark.parametrize("sampled", ["like the others", "nearest", "farthest"])
@pytest.mark.parametrize("k", [1, 30])
@pytest.mark.parametrize("ties", [False, True])
def test_guesses_right_or_wrong_find_the_same(sampled, k, ties, monkeypatch):
    rng = np.random.default_rng(0)
    store = Store(rng.normal(size=(4_000, 3)).astype(np.float32))
    vectors = store.vectors()
    vectors[:: shortlist.SAMPLED] *= {"like the others": 1, "nearest": 0.01, "farthest": 100}[sampled]
    if ties:
        vectors[2_000:] = vectors[:2_000]
    queries = vectors[:6] + rng.normal(size=(6, 3)).astype(np.float32) / 10
    gone = brute_force(vectors, queries, 1)[:3, 0]
    store.remove(np.unique(gone))
    found = []
    search_rows = exact.search_rows
    monkeypatch.setattr(exact, "search_rows", lambda *args: found.append(search_rows(*args)) or found[-1])
    expected = store.ids[brute_force(store.take(store.ids), queries, k)]
    np.testing.assert_array_equal(ExactIndex(store).search(queries, k), expected)
    assert (found[0] is not None) or sampled != "like the others"


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 6, 70])
def test_a_table_of_one_block_needs_no_list_of_pairs(batch, count, monkeypatch):
    monkeypatch.setattr(exact, "decide", None)  # of the other way
    rng = np.random.default_rng(0)
    vectors, queries = (rng.normal(size=(n, 3)).astype(np.float32) for n in (5_000, batch))
    distances = np.square(vectors[None].astype(np.float64) - queries[:, None]).sum(axis=2)  # no two are nearly equal
    for k in (1, 20, 400):
        with using_threads(count):
            found = ExactIndex(vectors).search(queries, k)
        np.testing.assert_array_equal(found, distances.argsort(axis=1)[:, :k])


def test_a_lower_precision_of_products_in_torch_changes_nothing():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2_000, 64)).astype(np.float32)
    queries = rng.normal(size=(32, 64)).astype(np.float32)
    expected = ExactIndex(vectors).search(queries, 50)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        found = ExactIndex(vectors).search(queries, 50)
    finally:
        torch.set_float32_matmul_precision(before)
    np.testing.assert_array_equal(found, expected)


def test_the_table_is_not_copied(tmp_path):
    path = tmp_path / "table.npy"
    np.save(path, np.random.default_rng(0).normal(size=(200_000, 20)).astype(np.float32))
    vectors = np.load(path, mmap_mode="r")
    tracemalloc.start()
    index = ExactIndex(vectors)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.shares_memory(index._store.vectors(), vectors)
    assert peak < vectors.nbytes
    np.testing.assert_array_equal(index.search(vectors[[5, 199_999]], 1), [[5], [199_999]])


@pytest.mark.parametrize("block_bytes", [exact.BLOCK_BYTES, 4 * 37])
@pytest.mark.parametrize("few", [exact.QUERIES_PER_BLOCK, 2])
def test_rows_that_come_and_go_leave_it_exact(block_bytes, few, monkeypatch):
    monkeypatch.setattr(exact, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(exact, "QUERIES_PER_BLOCK", few)
    rng = np.random.default_rng(0)
    store = Store(rng.integers(-2, 3, size=(60, 3)).astype(np.float32))
    index = ExactIndex(store)
    queries = rng.integers(-2, 3, size=(5, 3)).astype(np.float32)
    for step in range(6):
        store.remove(rng.choice(store.ids, 15, replace=False))
        store.add(rng.integers(-2, 3, size=(10, 3)) * 10.0**step)  # further and further away
        for k in (1, 12, store.n):
            left = store.ids
            expected = left[brute_force(store.take(left), queries, k)]
            np.testing.assert_array_equal(index.search(queries, k), expected)
            np.testing.assert_array_equal(index.search(queries[:1], k), expected[:1])


def test_equal_rows_take_little_memory_for_one_query_too():
    vectors = np.ones((200_000, 32), np.float32)
    index = ExactIndex(vectors)
    tracemalloc.start()
    found = index.search(vectors[:1], 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(found, [[0, 1, 2]])
    assert peak < vectors.nbytes  # all of them in float64 would be twice that


def test_a_query_at_the_end_of_float32_is_no_warning():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(60, 3)).astype(np.float32)
    for table in (vectors, (vectors * 1e30 - 3e38).astype(np.float32)):
        queries = np.float32([[3e38] * 3, [-3e38] * 3, [3e38, 0, -3e38]])
        found = ExactIndex(table).search(queries, 20)
        assert all(len(set(row)) == 20 and min(row) >= 0 for row in found.tolist())
