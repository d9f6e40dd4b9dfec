"""FAISS recipes: short results are completed, bad recipes are explained."""

import faiss
import numpy as np
import pytest

from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss import FaissIndex


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)


@pytest.fixture
def queries():
    return np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)


@pytest.mark.parametrize("recipe", ["IVF64,Flat", "IVF64,SQ8", "PCA3,IVF64,Flat", "IVF64,SQ8,RFlat"])
@pytest.mark.parametrize("k", [20, 200, 400])
def test_lists_that_hold_fewer_than_k_are_widened(vectors, queries, recipe, k):
    index = FaissIndex(vectors, recipe, nprobe=1)
    found = index.search(queries, k)  # a list holds about 6
    assert all(len(set(row)) == k for row in found.tolist())
    assert found.min() >= 0


def test_widening_leaves_the_index_as_it_was(vectors, queries):
    index = FaissIndex(vectors, "IVF64,Flat", nprobe=1)
    before = index.search(queries, 1)
    index.search(queries, 300)
    assert faiss.extract_index_ivf(index._faiss).nprobe == 1
    np.testing.assert_array_equal(index.search(queries, 1), before)


class Stub:
    """A FAISS index that always answers with the same ids."""

    def __init__(self, ids):
        self.ids, self.calls = ids, 0

    def search(self, queries, k, params=None):
        self.calls += 1
        return None, np.tile(self.ids, (len(queries), 1))


@pytest.mark.parametrize("answer", [[3, -1, -1], [3, 3, 5], [-1, -1, -1]])
def test_padding_and_repeats_end_in_an_exact_scan(vectors, queries, monkeypatch, answer):
    index = FaissIndex(vectors, "Flat")
    stub = Stub(np.array(answer))
    monkeypatch.setattr(index, "_faiss", stub)
    monkeypatch.setattr("wolpertinger.index.faiss._search_params", lambda *_: (None, True))
    monkeypatch.setattr("wolpertinger.index.faiss._inverted_file", lambda _: None)
    np.testing.assert_array_equal(index.search(queries, 3), ExactIndex(vectors).search(queries, 3))
    assert stub.calls == 1


def test_hnsw_with_k_above_ef_search_is_full(vectors, queries):
    found = FaissIndex(vectors, "HNSW8", ef_search=16).search(queries, 250)
    assert all(len(set(row)) == 250 and min(row) >= 0 for row in found.tolist())


def test_five_thousand_duplicates_in_hnsw_are_all_found():
    found = FaissIndex(np.ones((5_000, 4), np.float32), "HNSW16").search(np.ones((2, 4)), 50)
    assert all(len(set(row)) == 50 and min(row) >= 0 for row in found.tolist())


@pytest.mark.parametrize("recipe", ["IVF500,Flat", "PQ2x12", "IVF0,Flat", "IDMap,Flat"])
def test_a_recipe_that_does_not_suit_the_table_is_an_error_that_says_so(vectors, recipe):
    with pytest.raises(ValueError, match=f"index='{recipe}' cannot be built on 400 vectors of 4 dimensions"):
        FaissIndex(vectors, recipe)


def test_an_unknown_recipe_is_an_error_with_examples(vectors):
    with pytest.raises(ValueError, match=r"index='Nope' is not a recipe FAISS can build .*HNSW32"):
        FaissIndex(vectors, "Nope")
