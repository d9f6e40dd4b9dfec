"""A scan's memory: a few blocks, and some numbers for each result, whatever the order of the rows."""

import tracemalloc

import numpy as np
import pytest

from wolpertinger.index import ExactIndex, Store, exact
from wolpertinger.index.shortlist import SAMPLED, Shortlist, search_rows

N, WIDTH = 8_000, 256  # rows of the table, and of a block
# What a scan may take. Measured: 12 blocks at k = 1, at most 22 with what the results take. Everything kept: 500.
BLOCKS, RESULT_BYTES, REST = 25, 200, 100_000


def sort(rows, order):
    return {"ascending": rows, "descending": rows[::-1], "random": np.random.default_rng(0).permutation(rows)}[order]


def make_table(order, distinct):
    """Rows between -1 and 1, every one N / distinct times."""
    return sort(np.repeat(np.linspace(-1, 1, distinct), N // distinct), order)[:, None].astype(np.float32)


def brute_force(vectors, queries, k):
    distances = np.square(vectors[None, :, 0].astype(np.float64) - queries.astype(np.float64))  # (batch, n)
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def most_bytes(batch, k):
    return BLOCKS * exact.BLOCK_BYTES + RESULT_BYTES * batch * k + REST


def search_and_measure(index, queries, k):
    """What is found, and the most bytes that were held meanwhile."""
    tracemalloc.start()
    found = index.search(queries, k)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found, peak


@pytest.mark.parametrize("k", [1, 30, 400])
@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("distinct", [N, N // 50, 1])
@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_the_memory_of_a_scan_does_not_depend_on_the_order_of_the_rows(order, distinct, batch, k, monkeypatch):
    monkeypatch.setattr(exact, "BLOCK_BYTES", 4 * batch * WIDTH)
    vectors, queries = make_table(order, distinct), np.linspace(1, -1, batch, dtype=np.float32)[:, None]
    found, peak = search_and_measure(ExactIndex(vectors), queries, k)
    np.testing.assert_array_equal(found, brute_force(vectors, queries, k))
    assert peak < most_bytes(batch, k)


def test_one_query_whose_distances_overflow_does_not_cost_the_others_memory(monkeypatch):
    batch, k = 64, 5
    monkeypatch.setattr(exact, "BLOCK_BYTES", 4 * batch * WIDTH)
    vectors, queries = make_table("random", N), np.linspace(1, -1, batch, dtype=np.float32)[:, None]
    queries[7] = 1e30  # to which every row is as near as any other
    found, peak = search_and_measure(ExactIndex(vectors), queries, k)
    np.testing.assert_array_equal(found, brute_force(vectors, queries, k))
    assert peak < most_bytes(batch, k)


@pytest.mark.parametrize("k", [1, 30, 400])
@pytest.mark.parametrize("distinct", [N, 1])
@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_removed_rows_stay_out_of_a_list_that_is_cut_short(order, distinct, k, monkeypatch):
    monkeypatch.setattr(exact, "BLOCK_BYTES", 4 * 8 * WIDTH)
    store = Store(make_table(order, distinct))
    store.remove(np.random.default_rng(0).choice(N, N // 2, replace=False))
    store.add(make_table(order, distinct))
    queries = np.append(np.linspace(1, -1, 7), 1e30).astype(np.float32)[:, None]
    expected = store.ids[brute_force(store.take(store.ids), queries, k)]
    np.testing.assert_array_equal(ExactIndex(store).search(queries, k), expected)


def test_a_guess_below_the_k_th_smallest_is_dropped_even_if_its_margin_keeps_enough():
    n, k, error = 800, 20, 1.0
    true, approximate = np.full(n, 1e4), np.full(n, 1e4)
    sampled = np.arange(0, n, SAMPLED)
    true[sampled[:11]] = approximate[sampled[:11]] = 0.0  # the sample says that k are about here
    others = 1 + SAMPLED * np.arange(10)
    true[others[:9]], approximate[others[:9]] = 2.9, 1.9
    true[others[9]], approximate[others[9]] = 1.1, 2.1  # just above the guess and its margin, but the twelfth nearest
    store = Store(np.sqrt(true)[:, None].astype(np.float32))
    shortlist = Shortlist(store, np.zeros((1, 1)), k, np.array([2 * error]), n)
    shortlist.take(approximate[None].astype(np.float32), 0)
    assert others[9] in shortlist.pairs()[1]
    assert search_rows(store, np.zeros((1, 1)), approximate[None].astype(np.float32), k, np.array([2 * error])) is None


@pytest.mark.parametrize("k", [1, 30, 300])
@pytest.mark.parametrize("distinct", [4_000, 399])
@pytest.mark.parametrize("error", [0.0, 1e-6, 1e-5, 1e-4])
def test_approximations_decide_only_where_they_are_sure(error, distinct, k):
    """However they err, up to their bound, what is found is in the order of the distances, then of the ids."""
    rng = np.random.default_rng(0)
    store = Store(rng.normal(size=(distinct, 1)).astype(np.float32)[np.arange(4_000) % distinct])
    queries = rng.normal(size=(5, 1)).astype(np.float32)
    distances = np.square(store.vectors()[:, 0].astype(np.float64) - queries)
    wrong = distances + error * rng.choice([-1, 1], size=distances.shape)
    margin = np.full(len(queries), 2 * error + 1e-6)
    found = search_rows(store, queries.astype(np.float64), wrong.astype(np.float32), k, margin)
    np.testing.assert_array_equal(found, brute_force(store.vectors(), queries, k))


def test_more_rows_than_pay_are_left_to_others():
    store, approximate = Store(np.ones((800, 1), np.float32)), np.zeros((1, 800), np.float32)
    assert search_rows(store, np.ones((1, 1)), approximate, 20, np.array([1e-6])) is None
