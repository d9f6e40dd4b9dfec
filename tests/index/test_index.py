"""The contract of every index, through one tester."""

import re
from functools import cache

import numpy as np
import pytest

from wolpertinger.index import ExactIndex, FaissIndex, Index, Store, TunedIndex, build, tune, tuning_run
from wolpertinger.index.faiss import Effort
from wolpertinger.index.store import MIN_PACKED

RECIPES = [
    "Flat",
    "IVF16,Flat",
    "HNSW16",
    "IVF16,SQ8",
    "IVF16,PQ6x4fs",
    "IVF16(PQ6x4fs),PQ6x4fs",
    "PQ6x4fs",
    "PCA3,IVF16,Flat",
    "IVF16,SQ8,RFlat",
]
OVERFETCH = " x4"  # marks a recipe whose search re-ranks four times as many candidates
TUNED = "tuned "  # marks a recipe whose settings are tuned, however small the table and fast its scan
KINDS = [
    *("exact", "auto", *RECIPES),
    *(recipe + OVERFETCH for recipe in ("IVF16,SQ8", "IVF16,PQ6x4fs", "PQ6x4fs", "HNSW16")),
    *(TUNED + recipe for recipe in ("IVF16,Flat", "IVF16,PQ6x4fs", "HNSW16")),
]
EXACT = ["exact", "auto"]
N, DIM = 300, 6


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def random_table(n=N, dim=DIM, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


def make(kind, vectors):
    """An index of this kind and the store behind it."""
    store = Store(vectors)
    if kind.endswith(OVERFETCH):
        return FaissIndex(store, kind.removesuffix(OVERFETCH), effort=Effort(overfetch=4)), store
    if kind.startswith(TUNED):
        return build(kind.removeprefix(TUNED), store, recall=0.8), store
    return build(kind, store), store


@pytest.fixture(autouse=True)
def no_table_is_too_small_to_tune(kind_name, monkeypatch):
    if kind_name.startswith(TUNED):
        monkeypatch.setattr(tune, "EXACT_BELOW", 1)
        monkeypatch.setattr(tune, "MAX_TUNING_QUERIES", 32)  # to measure on, which takes most of the time
        # The scan seems slow, so that whatever else reaches the recall is chosen.
        monkeypatch.setattr(
            tuning_run.TuningRun, "_time", lambda _, index, repeats=3: 1.0 + isinstance(index, ExactIndex)
        )


@pytest.fixture
def kind_name(request):
    return request.getfixturevalue("kind") if "kind" in request.fixturenames else ""


@cache
def standard_index(kind):
    return make(kind, random_table())[0]


@pytest.fixture
def standard(kind):
    return standard_index(kind)


def brute_force(vectors, queries, k, ids=None):
    """One query at a time, sorted by (distance, id)."""
    ids = range(len(vectors)) if ids is None else ids
    found = []
    for query in np.asarray(queries, np.float64):
        distances = ((np.asarray(vectors, np.float64) - query) ** 2).sum(axis=1)
        found.append(sorted(ids, key=lambda i, d=distances: (d[i], i))[:k])
    return np.array(found)


def assert_sorted_and_distinct(found, vectors, queries, rounding=1e-5):
    """k different valid ids a row, by distance as far as float32 can tell, equal vectors by id."""
    assert found.dtype == np.int64
    assert found.min() >= 0
    assert found.max() < len(vectors)
    for ids, query in zip(found, np.asarray(queries, np.float64), strict=True):
        assert len(set(ids)) == len(ids)
        distances = ((vectors[ids].astype(np.float64) - query) ** 2).sum(axis=1)
        assert (distances[:-1] <= distances[1:] * (1 + rounding)).all()
        same = (vectors[ids[:-1]] == vectors[ids[1:]]).all(axis=1)
        assert (ids[:-1] < ids[1:])[same].all()


def share_found(found, expected):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, expected, strict=True)])


def test_an_index_keeps_the_protocol(standard):
    assert isinstance(standard, Index)
    assert (standard.n, standard.dim) == (N, DIM)


@pytest.mark.parametrize("k", [1, 7, 150, N])
def test_a_batch_finds_k_sorted_distinct_neighbours(kind, standard, k):
    vectors, queries = random_table(), random_table(n=9, seed=1)
    found = standard.search(queries, k)
    assert found.shape == (9, k)
    assert_sorted_and_distinct(found, vectors, queries)
    expected = brute_force(vectors, queries, k)
    assert share_found(found, expected) >= (1.0 if k == N else 0.1 if "PQ" in kind or "PCA" in kind else 0.7)
    if kind in (*EXACT, "Flat"):
        np.testing.assert_array_equal(found, expected)


def test_the_same_queries_one_by_one_give_the_same(kind, standard):
    queries = random_table(n=5, seed=1)
    together = standard.search(queries, 12)
    np.testing.assert_array_equal(np.concatenate([standard.search(row[None], 12) for row in queries]), together)


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("k", [1, 40, 100])
def test_duplicates_are_distinct_actions_with_ties_by_id(kind, share, k):
    vectors, queries = random_table(n=100), random_table(n=5, seed=1)
    vectors[: int(share * 100)] = vectors[0]
    queries[0] = vectors[0]
    found = make(kind, vectors)[0].search(queries, k)
    assert found.shape == (5, k)
    assert_sorted_and_distinct(found, vectors, queries)
    if kind in EXACT:
        np.testing.assert_array_equal(found, brute_force(vectors, queries, k))


def test_one_dimension_works(kind):
    vectors = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    kind = kind.replace("PQ6", "PQ1").replace("PCA3", "PCA1")
    queries = np.float32([[-2.0], [2.0], [0.3]])
    index, _ = make(kind, vectors)
    for k in (2, 64):
        found = index.search(queries, k)
        assert_sorted_and_distinct(found, vectors, queries)
        if "PQ" not in kind or k == 64:
            np.testing.assert_array_equal(found, brute_force(vectors, queries, k))


@pytest.mark.parametrize("kind", [*EXACT, "Flat", "HNSW16", "HNSW16 x4", "tuned HNSW16"])
def test_one_vector_works(kind):
    index, _ = make(kind, [[1.0, 2.0]])
    np.testing.assert_array_equal(index.search([[0.0, 0.0], [9.0, 9.0]], 1), [[0], [0]])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "," in kind or "PQ" in kind])
def test_one_vector_is_too_few_to_train_on_and_the_error_says_so(kind):
    recipe = kind.removeprefix(TUNED).removesuffix(OVERFETCH)
    with pytest.raises(ValueError, match=f"index='{re.escape(recipe)}' cannot be built on 1 vec.* give more vec"):
        make(kind, np.ones((1, DIM)))


def test_an_empty_batch_gives_an_empty_result(standard):
    found = standard.search(np.empty((0, DIM)), 3)
    assert found.shape == (0, 3)
    assert found.dtype == np.int64


@pytest.mark.parametrize("scale", [1e18, 1e30, 3e38])
def test_squares_that_overflow_lose_nothing(kind, scale):
    """FAISS's k-means ends the process on such vectors, so it must not see them."""
    vectors = (np.random.default_rng(0).uniform(-1, 1, size=(100, DIM)) * scale).astype(np.float32)
    queries = (np.random.default_rng(1).uniform(-1, 1, size=(3, DIM)) * scale).astype(np.float32)
    found = make(kind, vectors)[0].search(queries, 10)
    np.testing.assert_array_equal(found, brute_force(vectors, queries, 10))


@pytest.mark.parametrize("distance", [1e3, 1e20, 3e38])
def test_a_query_far_outside_the_table_finds_k(standard, distance):
    queries = np.float32([[distance] * DIM, [-distance] * DIM])
    for k in (5, N):
        found = standard.search(queries, k)
        assert all(len(set(row)) == k and min(row) >= 0 and max(row) < N for row in found.tolist())


@pytest.mark.parametrize("k", [0, -1, N + 1])
def test_k_out_of_range_is_the_same_error_everywhere(standard, k):
    with pytest.raises(ValueError, match=f"^k={k} is out of range for 300 actions: give a count from 1 to 300"):
        standard.search(np.zeros((1, DIM)), k)


@pytest.mark.parametrize("k", [True, "3", 0.5, None])
def test_k_that_is_no_count_is_an_error(standard, k):
    with pytest.raises(TypeError, match=f"^k={k!r} is not a count: give a count from 1 to 300"):
        standard.search(np.zeros((1, DIM)), k)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_a_query_that_is_not_finite_is_an_error(standard, bad):
    queries = np.zeros((3, DIM))
    queries[1, 2] = bad
    with pytest.raises(ValueError, match=r"queries must be finite float32 numbers: 1 of 3 rows are not \(row 1\)"):
        standard.search(queries, 2)


@pytest.mark.parametrize("shape", [(6,), (1, 5), (1, 7), (1, 1, 6)])
def test_a_query_of_the_wrong_shape_is_an_error(standard, shape):
    with pytest.raises(ValueError, match=r"queries have shape .*: give \(batch, 6\)"):
        standard.search(np.zeros(shape), 2)


@pytest.mark.parametrize("queries", [[["a"] * 6], [[None] * 6], [[1j] * 6]])
def test_a_query_of_the_wrong_type_is_an_error(standard, queries):
    with pytest.raises(TypeError, match=r"queries are of type .*: give real numbers"):
        standard.search(queries, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_rejected_with_their_rows(kind, bad):
    vectors = random_table()
    vectors[[3, 20, 21, 22, 23, 24, 25], 1] = bad
    with pytest.raises(ValueError, match=r"7 of 300 rows are not \(row 3, 20, 21, 22, 23, \.\.\.\)"):
        make(kind, vectors)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,), (2, 2, 2)])
def test_vectors_of_the_wrong_shape_are_rejected(kind, shape):
    with pytest.raises(ValueError, match=r"vectors have shape .*: give \(n, dim\)"):
        make(kind, np.zeros(shape))


def faiss_objects(index):
    """The FAISS indexes behind an index, by their identity."""
    if isinstance(index, FaissIndex):
        return [id(index._faiss)]
    return [id(built._faiss) for built in index._tuner.built.values()] if isinstance(index, TunedIndex) else []


def test_added_rows_are_found_at_once_without_a_rebuild(kind):
    index, store = make(kind, random_table())
    queries = random_table(n=4, seed=1)
    index.search(queries, 5)
    before = faiss_objects(index)
    for seed in (3, 4):  # twice: those that were added first must keep their ids
        rows = random_table(n=3, seed=seed)
        new = store.add(rows)
        np.testing.assert_array_equal(index.search(rows, 60)[:, 0], new)  # 60: codes of 4 bits are coarse
    assert index.n == N + 6
    assert faiss_objects(index) == before
    vectors = store.vectors()
    np.testing.assert_array_equal(vectors[N:], np.concatenate([random_table(n=3, seed=seed) for seed in (3, 4)]))
    found = index.search(queries, N + 6)
    assert_sorted_and_distinct(found, vectors, queries)
    np.testing.assert_array_equal(np.sort(found), np.tile(np.arange(N + 6), (4, 1)))


@pytest.mark.parametrize("gone", [1, 150, 297])
def test_removed_rows_never_come_back(kind, gone):
    vectors, queries = random_table(), random_table(n=4, seed=1)
    index, store = make(kind, vectors)
    nearest = index.search(queries, 3)
    before = faiss_objects(index)
    removed = np.random.default_rng(2).permutation(np.setdiff1d(np.arange(N), nearest[0, 0]))[: gone - 1]
    removed = np.append(removed, nearest[0, 0])
    store.remove(removed)
    left = np.setdiff1d(np.arange(N), removed)
    assert index.n == len(left) == N - gone
    for k in (1, 2, len(left)):
        found = index.search(queries, k)
        assert not np.isin(found, removed).any()
        assert_sorted_and_distinct(found, vectors, queries)
        if kind in (*EXACT, "Flat") or k == len(left):
            expected = brute_force(vectors, queries, k, left)
            np.testing.assert_array_equal(np.sort(found), np.sort(expected))
    with pytest.raises(ValueError, match=f"k={len(left) + 1} is out of range for {len(left)} actions"):
        index.search(queries, len(left) + 1)
    if gone <= MIN_PACKED:  # else it is built anew on what is left
        assert faiss_objects(index) == before


def test_ids_are_never_given_again(kind):
    index, store = make(kind, random_table())
    index.search(np.zeros((1, DIM)), 2)
    store.remove([N - 1, 0])
    new = store.add(random_table(n=1))  # the vector that id 0 had
    np.testing.assert_array_equal(new, [N])
    assert index.search(random_table(n=1), 60)[0, 0] == N
    store.remove(new)
    assert store.add(random_table(n=1)).tolist() == [N + 1]
    found = index.search(random_table(n=1), index.n)
    assert not np.isin(found, [0, N - 1, N]).any()


@pytest.mark.parametrize(
    ("index", "recall", "expected"),
    [
        (None, None, ExactIndex),
        ("exact", 0.9, ExactIndex),
        ("Flat", None, FaissIndex),
        (None, "fast", TunedIndex),
        ("auto", None, TunedIndex),
        ("IVF16,Flat", 0.9, TunedIndex),
    ],
)
def test_what_is_built(index, recall, expected):
    built = build(index, random_table(), recall=recall)
    assert type(built) is expected
    if expected is TunedIndex:
        assert built.recall == {"fast": 0.7, None: 0.99, 0.9: 0.9}[recall]


@pytest.mark.parametrize("name", ["nonsense", "", "IVF16", "PQ7", "Exact"])
@pytest.mark.parametrize("recall", [None, 0.9])
def test_an_unknown_index_is_an_error_that_says_what_is_accepted(name, recall):
    with pytest.raises(ValueError, match=f'index={name!r} is not a recipe .* give "exact", "auto" or a FAISS recipe'):
        build(name, random_table(), recall=recall)


def test_an_index_that_is_no_name_is_an_error():
    with pytest.raises(TypeError, match='index=3 is not a name: give "exact", "auto" or a FAISS recipe'):
        build(3, random_table())
