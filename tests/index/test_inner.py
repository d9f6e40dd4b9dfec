"""Searches for inner products, beside the products themselves."""

import numpy as np
import pytest
import torch

from wolpertinger.index import InnerProductIndex, largest_products
from wolpertinger.index import inner as module

RNG = np.random.default_rng(0)
VECTORS = (RNG.normal(size=(800, 6)) * RNG.uniform(0.1, 5, size=(800, 1))).astype(np.float32)
QUERIES = (RNG.normal(size=(50, 6)) * RNG.uniform(0.01, 100, size=(50, 1))).astype(np.float32)


def by_product(vectors, k):
    return np.argsort(-(QUERIES.astype(np.float64) @ vectors.T.astype(np.float64)), axis=1)[:, :k]


@pytest.mark.parametrize("n", [1, 5, 63, 64, 300, 800])
@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("at_once", [1, 2**19])
def test_the_product_with_all_finds_the_largest_first(n, k, at_once, monkeypatch):
    monkeypatch.setattr(module, "CACHED", at_once)
    monkeypatch.setattr(module, "LEAST_ROWS", 3)  # the last part of 50 queries has 2 rows
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


def test_vectors_that_moved_are_searched_by_what_served_before():
    many = np.random.default_rng(1).normal(size=(3_000, 6)).astype(np.float32)
    before = InnerProductIndex(many, 0.9, build_seconds=20)
    before.search(QUERIES, 5)
    moved = many + 0.05 * np.random.default_rng(2).normal(size=many.shape).astype(np.float32)
    after = InnerProductIndex(moved, 0.9, like=before, build_seconds=20)
    found, expected = after.search(QUERIES, 5), by_product(moved, 5)
    assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found, expected, strict=True)]) >= 0.8
    used = {state.recipe for state in before._index._states.values()}
    assert set(after._index._tuner.built) <= used
