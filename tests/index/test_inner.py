"""Searches for inner products, beside the products themselves."""

import numpy as np
import pytest
import torch

from wolpertinger.index import InnerProductIndex, largest_products
from wolpertinger.index import inner as module
from wolpertinger.index import tuned as tuned_module
from wolpertinger.index.faiss import Effort
from wolpertinger.index.monitor import MonitoredIndex
from wolpertinger.index.tuned import TunedIndex

RNG = np.random.default_rng(0)
VECTORS = (RNG.normal(size=(800, 6)) * RNG.uniform(0.1, 5, size=(800, 1))).astype(np.float32)
QUERIES = (RNG.normal(size=(50, 6)) * RNG.uniform(0.01, 100, size=(50, 1))).astype(np.float32)


def by_product(vectors, k):
    return np.argsort(-(QUERIES.astype(np.float64) @ vectors.T.astype(np.float64)), axis=1)[:, :k]


@pytest.mark.parametrize("n", [1, 5, 63, 64, 300, 800])
@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("at_once", [1, 2**19])
def test_the_product_with_all_finds_the_largest_first(n, k, at_once, monkeypatch):
    monkeypatch.setattr(module, "PRODUCTS_PER_BLOCK", at_once)
    monkeypatch.setattr(module, "MIN_QUERIES_PER_BLOCK", 3)  # the last part of 50 queries has 2 rows
    monkeypatch.setattr(module, "SEGMENT", 8)
    k = min(k, n)
    found = largest_products(torch.from_numpy(QUERIES), torch.from_numpy(VECTORS[:n]), k)
    np.testing.assert_array_equal(found, by_product(VECTORS[:n], k))


@pytest.mark.parametrize("k", [1, 3])
def test_equal_products_are_found_once_each(k):
    found = largest_products(torch.ones(2, 1), torch.ones(1_000, 1), k)
    assert all(len(set(row)) == k for row in found.tolist())


@pytest.mark.parametrize("k", [1, 7])
def test_it_finds_the_largest_products_largest_first(k):
    found = InnerProductIndex(VECTORS, 1.0).search(QUERIES, k)
    assert (found == by_product(VECTORS, k)).mean() > 0.99  # but for ties of rounding


def test_it_is_no_search_for_the_nearest():
    nearest = np.linalg.norm(VECTORS[None] - QUERIES[:, None], axis=2).argmin(axis=1)
    assert (InnerProductIndex(VECTORS, 1.0).search(QUERIES, 1)[:, 0] != nearest).any()


def test_equal_lengths_a_zero_query_and_zero_vectors():
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    np.testing.assert_array_equal(InnerProductIndex(unit, 1.0).search(QUERIES, 1), by_product(unit, 1))
    assert InnerProductIndex(VECTORS, 1.0).search(np.zeros((1, 6)), 3).shape == (1, 3)
    assert InnerProductIndex(np.zeros((5, 6)), 1.0).search(QUERIES, 5).shape == (50, 5)


def shared(found, expected):
    return np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(found, expected, strict=True)])


def moved_index(distance, monkeypatch, recall=0.9, expected=QUERIES):
    """An index, and one like it over the same vectors moved; with the vectors, and what was tuned on the way."""
    many = np.random.default_rng(1).normal(size=(3_000, 6)).astype(np.float32)
    before = InnerProductIndex(many, recall, build_seconds=1_000)
    before._index._tuner._recipes = ["IVF64,Flat"]
    before._index.tune(before._lengthen(QUERIES), 5)
    if before._index._states[5].recipe == "exact":  # few vectors: a scan may be faster
        index = before._index._tuner.built["IVF64,Flat"].with_effort(Effort(nprobe=8))
        before._index._states[5].index, before._index._states[5].recipe = index, "IVF64,Flat"
    before.search(QUERIES, 5)
    moved = many + distance * np.random.default_rng(2).normal(size=many.shape).astype(np.float32)
    tuned = []
    monkeypatch.setattr(TunedIndex, "_tune", lambda self, k, **kw: (tuned.append(k), TUNE(self, k, **kw))[1])
    after = InnerProductIndex(moved, recall, previous=before, expected_queries=expected, build_seconds=20)
    return before._index, after, moved, tuned


TUNE = TunedIndex._tune


def test_vectors_that_moved_are_searched_by_what_served_before(monkeypatch):
    before, after, moved, tuned = moved_index(0.02, monkeypatch)
    assert shared(after.search(QUERIES, 5), by_product(moved, 5)) >= 0.8
    assert set(after._index._tuner.built) == {"IVF64,Flat"}
    assert tuned == []
    assert after._index._states[5].index.effort == before._states[5].index.effort
    assert after._index._states[5].window  # it was looked at
    assert after.tuning_seconds == before.tuning_seconds


@pytest.mark.parametrize("enough", [True, False])
def test_what_served_before_is_tuned_anew_when_it_falls_short(enough, monkeypatch):
    monkeypatch.setattr(MonitoredIndex, "falls_short", lambda self, target: True)
    monkeypatch.setattr(tuned_module, "TUNING_PER_SCAN_TIME", np.inf)
    monkeypatch.setattr(tuned_module, "count_queries", lambda k: 4 * (len(QUERIES) + (not enough)))
    before, after, moved, tuned = moved_index(0.02, monkeypatch)
    assert tuned == [5]
    assert after._index._states[5].live == enough  # or it is tuned again when more was asked
    assert after._index._states[5].tunings == 2
    old, new = (index._tuner._centroids["IVF64"] for index in (before, after._index))
    assert not np.array_equal(old, new)  # those of rows that were elsewhere are of no use
    assert shared(after.search(QUERIES, 5), by_product(moved, 5)) >= 0.8


def test_rows_are_scanned_where_tuning_does_not_pay_off(monkeypatch):
    monkeypatch.setattr(MonitoredIndex, "falls_short", lambda self, target: True)
    monkeypatch.setattr(tuned_module, "TUNING_PER_SCAN_TIME", 0.0)
    _, after, moved, tuned = moved_index(0.02, monkeypatch)
    assert tuned == []
    assert after._index._states[5].recipe == "exact"
    assert not after._index._states[5].window  # of what is not used any more
    assert shared(after.search(QUERIES, 5), by_product(moved, 5)) > 0.99


@pytest.mark.parametrize(("seen", "pays_off"), [(0, False), (100, False), (500, True)])
def test_tuning_pays_off_beside_many_scans(seen, pays_off, monkeypatch):
    before, _, _, _ = moved_index(0.02, monkeypatch)
    before._full_tuning_seconds, before._scan_seconds[5], before._queries.asked = 1.0, 0.01, seen
    assert before._tuning_pays_off(5) == pays_off


def test_what_pays_off_is_told_by_a_tuning_that_builds():
    index = InnerProductIndex(VECTORS, 0.9)._index
    index.tune(QUERIES @ np.eye(6, 7, dtype=np.float32), 5)
    built = index._full_tuning_seconds
    assert built == index.tuning_seconds > 0
    index._tune(5, live=True, build=False)
    assert index._full_tuning_seconds == built


def test_a_few_queries_judge_nothing(monkeypatch):
    monkeypatch.setattr(MonitoredIndex, "falls_short", lambda self, target: True)
    before, after, _, tuned = moved_index(0.02, monkeypatch, expected=QUERIES[:7])
    assert tuned == []
    assert after._index._states[5].index.effort == before._states[5].index.effort


def test_what_serves_is_held_against_the_rest_when_there_is_time(monkeypatch):
    monkeypatch.setattr(tuned_module, "FULL_TUNING_SHARE", np.inf)
    _, after, _, tuned = moved_index(0.02, monkeypatch)
    after.search(QUERIES, 5)
    assert tuned[0] == 5
    assert {"exact", "IVF64,PQ7x4fs", "IVF64,Flat"} <= {trial.recipe for trial in after._index.tunings[5].trials}


def test_a_k_that_is_more_than_is_left_is_forgotten(monkeypatch):
    many = np.random.default_rng(1).normal(size=(3_000, 6)).astype(np.float32)
    before = InnerProductIndex(many, 1.0)  # a scan
    before.search(QUERIES, 2_900)
    before.search(QUERIES, 5)
    before._index.tuning_seconds = 1e9
    after = InnerProductIndex(many[:2_500], 1.0, previous=before, expected_queries=QUERIES)
    assert set(after._index._states) == {5}


def test_a_recipe_that_the_user_chose_stays():
    many = np.random.default_rng(1).normal(size=(3_000, 6)).astype(np.float32)
    before, after = (TunedIndex(many, 0.9, recipe="IVF16,Flat") for _ in range(2))
    before.search(many[:50], 5)
    after.warm_start(before, many[:50])
    assert after._tuner._recipes_to_try(5) == ["IVF16,Flat"]


def test_queries_of_before_are_not_what_is_asked_of_vectors_that_moved(monkeypatch):
    _, after, _, _ = moved_index(0.02, monkeypatch, expected=2 * QUERIES[:7])
    np.testing.assert_array_equal(after._index._queries.last, after._lengthen(QUERIES[:7]))


def test_what_served_before_goes_on_where_no_query_is_known(monkeypatch):
    before, after, _, _ = moved_index(0.02, monkeypatch, expected=None)
    assert not after._index._states[5].window
    assert after._index._states[5].index.effort == before._states[5].index.effort


def test_where_what_served_fails_codes_and_whole_vectors_are_tried():
    many = np.random.default_rng(1).normal(size=(3_000, 6)).astype(np.float32)
    before, after = (InnerProductIndex(many, 0.9)._index._tuner for _ in range(2))
    after.warm_start(before, ["IVF32,PQ7x4fs"])
    assert after._recipes_to_try(5) == ["IVF32,PQ7x4fs"]
    after.start_over()
    assert after._recipes_to_try(5) == ["IVF64,PQ7x4fs", "IVF64,Flat"]


@pytest.mark.parametrize("in_time", [True, False])
def test_where_nothing_served_all_is_tried_again_in_time(in_time, monkeypatch):
    many = np.random.default_rng(1).normal(size=(3_000, 6)).astype(np.float32)
    before = InnerProductIndex(many, 1.0)  # a scan
    before.search(QUERIES, 5)
    before._index.tuning_seconds = 0.0 if in_time else 1e9
    after = InnerProductIndex(many, 1.0, previous=before)
    assert (5 in after._index._states) != in_time
