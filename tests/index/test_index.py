"""The contract of every index, through one tester."""

from functools import cache

import numpy as np
import pytest

from wolpertinger import index
from wolpertinger.index import ExactIndex, Index, build

RECIPES = ["exact", "auto", "Flat", "IVF16,Flat", "HNSW16", "IVF16,SQ8"]
EXACT = ["exact", "auto", "Flat"]


@pytest.fixture(params=RECIPES)
def recipe(request):
    return request.param


def random_table(n=300, dim=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


@cache
def standard_index(recipe):
    return build(recipe, random_table())


def brute_force(vectors, queries, k):
    """One query at a time, sorted by (distance, id)."""
    found = []
    for query in np.asarray(queries, np.float64):
        distances = ((vectors.astype(np.float64) - query) ** 2).sum(axis=1)
        found.append(sorted(range(len(vectors)), key=lambda i, d=distances: (d[i], i))[:k])
    return np.array(found)


def assert_sorted_and_distinct(found, vectors, queries):
    """k different valid ids a row, by distance, ties by id."""
    assert found.dtype == np.int64
    assert found.min() >= 0
    assert found.max() < len(vectors)
    for ids, query in zip(found, queries.astype(np.float64), strict=True):
        assert len(set(ids)) == len(ids)
        distances = ((vectors[ids].astype(np.float64) - query) ** 2).sum(axis=1)
        order = list(zip(distances, ids, strict=True))
        assert order == sorted(order)


def test_an_index_keeps_the_protocol(recipe):
    built = standard_index(recipe)
    assert isinstance(built, Index)
    assert (built.n, built.dim) == (300, 6)


@pytest.mark.parametrize("k", [1, 7, 150, 300])
def test_a_batch_finds_k_sorted_distinct_neighbours(recipe, k):
    vectors, queries = random_table(), random_table(n=9, seed=1)
    found = build(recipe, vectors).search(queries, k)
    assert found.shape == (9, k)
    assert_sorted_and_distinct(found, vectors, queries)
    expected = brute_force(vectors, queries, k)
    recall = np.mean([len(set(a) & set(b)) / k for a, b in zip(found, expected, strict=True)])
    assert recall >= (1.0 if recipe in EXACT or k == 300 else 0.7)
    if recipe in EXACT:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("k", [1, 40, 100])
def test_duplicates_are_distinct_actions_with_ties_by_id(recipe, share, k):
    vectors, queries = random_table(n=100), random_table(n=5, seed=1)
    vectors[: int(share * 100)] = vectors[0]
    queries[0] = vectors[0]
    found = build(recipe, vectors).search(queries, k)
    assert_sorted_and_distinct(found, vectors, queries)
    if recipe in ("exact", "auto"):
        np.testing.assert_array_equal(found, brute_force(vectors, queries, k))


def test_one_dimension_works(recipe):
    vectors = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    found = build(recipe, vectors).search([[-2.0], [2.0]], 2)
    np.testing.assert_array_equal(found, [[0, 1], [63, 62]])


@pytest.mark.parametrize("recipe", ["exact", "auto", "Flat", "HNSW16"])
def test_one_vector_works(recipe):
    np.testing.assert_array_equal(build(recipe, [[1.0, 2.0]]).search([[0.0, 0.0], [9.0, 9.0]], 1), [[0], [0]])


def test_an_empty_batch_gives_an_empty_result(recipe):
    found = standard_index(recipe).search(np.empty((0, 6)), 3)
    assert found.shape == (0, 3)
    assert found.dtype == np.int64


@pytest.mark.parametrize("k", [0, -1, 301])
def test_k_out_of_range_is_the_same_error_everywhere(recipe, k):
    with pytest.raises(ValueError, match=f"^k={k} is out of range for 300 actions: give a count from 1 to 300"):
        standard_index(recipe).search(np.zeros((1, 6)), k)


@pytest.mark.parametrize("k", [True, "3", 0.5, None])
def test_k_that_is_no_count_is_an_error(recipe, k):
    with pytest.raises(TypeError, match=f"^k={k!r} is not a count: give a count from 1 to 300"):
        standard_index(recipe).search(np.zeros((1, 6)), k)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_a_query_that_is_not_finite_is_an_error(recipe, bad):
    queries = np.zeros((3, 6))
    queries[1, 2] = bad
    with pytest.raises(ValueError, match=r"queries must be finite float32 numbers: 1 of 3 rows are not \(row 1\)"):
        standard_index(recipe).search(queries, 2)


@pytest.mark.parametrize("shape", [(6,), (1, 5), (1, 7), (1, 1, 6)])
def test_a_query_of_the_wrong_shape_is_an_error(recipe, shape):
    with pytest.raises(ValueError, match=r"queries have shape .*: give \(batch, 6\)"):
        standard_index(recipe).search(np.zeros(shape), 2)


@pytest.mark.parametrize("queries", [[["a"] * 6], [[None] * 6], [[1j] * 6]])
def test_a_query_of_the_wrong_type_is_an_error(recipe, queries):
    with pytest.raises(TypeError, match=r"queries are of type .*: give real numbers"):
        standard_index(recipe).search(queries, 2)


def test_vectors_that_are_not_finite_are_rejected_with_their_rows(recipe):
    vectors = random_table()
    vectors[[3, 20, 21, 22, 23, 24, 25], 1] = np.nan
    with pytest.raises(ValueError, match=r"7 of 300 rows are not \(row 3, 20, 21, 22, 23, \.\.\.\)"):
        build(recipe, vectors)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,), (2, 2, 2)])
def test_vectors_of_the_wrong_shape_are_rejected(recipe, shape):
    with pytest.raises(ValueError, match=r"vectors have shape .*: give \(n, dim\)"):
        build(recipe, np.zeros(shape))


def test_auto_is_exact_for_small_tables_and_an_inverted_file_for_large_ones(monkeypatch):
    from wolpertinger.index.faiss import FaissIndex

    assert isinstance(build("auto", random_table()), ExactIndex)
    assert index.EXACT_BELOW == 50_000
    monkeypatch.setattr(index, "EXACT_BELOW", 5_000)  # the same in less time
    assert isinstance(build("auto", random_table(n=4_999)), ExactIndex)
    large = build("auto", random_table(n=5_000, dim=2))
    assert isinstance(large, FaissIndex)
    assert large._recipe == "IVF280,Flat"
    queries = random_table(n=20, dim=2, seed=1)
    found, expected = large.search(queries, 10), ExactIndex(large._vectors).search(queries, 10)
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, expected, strict=True)]) > 0.95


@pytest.mark.parametrize("name", ["nonsense", "", "IVF16", "PQ7", "Exact"])
def test_an_unknown_index_is_an_error_that_says_what_is_accepted(name):
    with pytest.raises(ValueError, match=f'index={name!r} is not a recipe .* give "exact", "auto" or a FAISS recipe'):
        build(name, random_table())


def test_an_index_that_is_no_name_is_an_error():
    with pytest.raises(TypeError, match='index=3 is not a name: give "exact", "auto" or a FAISS recipe'):
        build(3, random_table())
