"""FAISS recipes: short results are completed, the exact distance decides, bad recipes are explained."""

import math
import re
from dataclasses import replace

import faiss
import numpy as np
import pytest

from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss import Effort, FaissIndex
from wolpertinger.index.faiss_build import MAX_COORDINATE, TooSlowError
from wolpertinger.index.measure import recall
from wolpertinger.index.store import Store


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)


@pytest.fixture
def queries():
    return np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)


@pytest.mark.parametrize("recipe", ["IVF64,Flat", "IVF64,SQ8", "PCA3,IVF64,Flat", "IVF64,SQ8,RFlat"])
@pytest.mark.parametrize("k", [20, 200, 400])
def test_lists_that_hold_fewer_than_k_are_widened(vectors, queries, recipe, k):
    index = FaissIndex(vectors, recipe, effort=Effort(nprobe=1))
    found = index.search(queries, k)  # a list holds about 6
    assert all(len(set(row)) == k for row in found.tolist())
    assert found.min() >= 0


def test_widening_leaves_the_index_as_it_was(vectors, queries):
    index = FaissIndex(vectors, "IVF64,Flat", effort=Effort(nprobe=1))
    before = index.search(queries, 1)
    index.search(queries, 300)
    assert faiss.extract_index_ivf(index._faiss).nprobe == 1
    np.testing.assert_array_equal(index.search(queries, 1), before)


class Stub:
    """A FAISS index that always answers with the same ids."""

    def __init__(self, ids, ntotal):
        self.ids, self.ntotal, self.calls = ids, ntotal, 0

    def search(self, queries, k, params=None):
        self.calls += 1
        return None, np.tile(self.ids, (len(queries), 1))


@pytest.mark.parametrize("answer", [[3, -1, -1], [3, 3, 5], [-1, -1, -1]])
def test_padding_and_repeats_end_in_an_exact_scan(vectors, queries, monkeypatch, answer):
    index = FaissIndex(vectors, "Flat")
    stub = Stub(np.array(answer), len(vectors))
    monkeypatch.setattr(index._rows, "_moment", replace(index._rows.now(), faiss=stub))
    monkeypatch.setattr("wolpertinger.index.faiss.search_params", lambda *_: None)
    np.testing.assert_array_equal(index.search(queries, 3), ExactIndex(vectors).search(queries, 3))
    assert stub.calls == 1  # there is nothing wider


def test_hnsw_with_k_above_ef_search_is_full(vectors, queries):
    found = FaissIndex(vectors, "HNSW8", effort=Effort(ef_search=16)).search(queries, 250)
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


@pytest.mark.parametrize("recipe", ["PQ4x4fs", "IVF16,PQ4x4fs", "IVF16,SQ4", "PCA2,Flat", "LSH"])
def test_more_candidates_find_more_and_all_find_all(vectors, queries, recipe):
    index = FaissIndex(vectors, recipe)
    expected = ExactIndex(vectors).search(queries, 10)
    shares = []
    for overfetch in (1, 4, 40):
        wider = index.with_effort(Effort(nprobe=16, overfetch=overfetch))
        shares.append(recall(vectors, queries, wider.search(queries, 10), expected).mean())
    assert shares[0] <= shares[1] <= shares[2] == 1


def test_another_effort_shares_the_built_index(vectors):
    index = FaissIndex(vectors, "IVF16,Flat", effort=Effort(nprobe=1))
    twin = index.with_effort(Effort(nprobe=16))
    assert twin._faiss is index._faiss
    assert (index.effort.nprobe, twin.effort.nprobe) == (1, 16)


@pytest.mark.parametrize("recipe", ["Flat", "IVF16,SQ8", "HNSW8", "PQ4x4fs", "PCA2,IVF16,Flat"])
def test_what_is_added_is_added_once_for_all_efforts(vectors, recipe):
    """Each of them took the rows in anew, so that the ids of what was added next were wrong."""
    store = Store(vectors)
    index = FaissIndex(store, recipe)
    twins = [index, index.with_effort(Effort(overfetch=3)), index.with_effort(Effort(overfetch=4))]
    for twin in twins:
        twin.search(vectors[:2], 3)
    rng = np.random.default_rng(3)
    for _ in range(2):
        rows = rng.normal(size=(5, 4)).astype(np.float32)
        new = store.add(rows)
        for twin in twins:
            np.testing.assert_array_equal(twin.search(rows, 100)[:, 0], new)
        index.settle()
        assert all(twin._faiss is index._faiss for twin in twins)
        assert index._faiss.ntotal == store.size
    assert FaissIndex(store, recipe, built=index.to_bytes()).n == 410


@pytest.mark.parametrize("recipe", ["Flat", "IVF16,SQ8", "HNSW8", "IVF16,PQ4x4fs", "IVF16,SQ8,RFlat"])
def test_bytes_there_and_back_give_the_same_answers(vectors, queries, recipe):
    store = Store(vectors)
    index = FaissIndex(store, recipe, effort=Effort(nprobe=2))
    data = index.to_bytes()
    data.flags.writeable = False  # as bytes of a file are
    restored = FaissIndex(store, recipe, effort=Effort(nprobe=2), built=data)
    np.testing.assert_array_equal(restored.search(queries, 20), index.search(queries, 20))
    rows = np.float32([[0.5, 0.5, 0.5, 0.5]])
    new = store.add(rows)  # after it was written
    late = FaissIndex(store, recipe, built=data)
    assert late.search(rows, 60)[0, 0] == new[0]


def test_bytes_of_another_table_are_refused(vectors):
    data = FaissIndex(vectors, "Flat").to_bytes()
    with pytest.raises(ValueError, match="saved index 'Flat' holds 400 vectors of 4 dimensions, the table 399 of 4"):
        FaissIndex(vectors[:399], "Flat", built=data)
    with pytest.raises(ValueError, match=r"the saved index is .*code_size=16.*makes .*code_size=12"):
        FaissIndex(vectors[:, :3], "Flat", built=data)
    with pytest.raises(ValueError, match="saved index 'Flat' cannot be read"):
        FaissIndex(vectors, "Flat", built=data[:50])


def test_no_time_to_build_is_an_error_before_all_is_done():
    vectors = np.random.default_rng(0).normal(size=(9_000, 2)).astype(np.float32)  # more than one block
    with pytest.raises(TooSlowError, match=r"building it would take about .* s, 0 s are left to build in"):
        FaissIndex(vectors, "Flat", build_seconds=0.0)
    assert FaissIndex(vectors, "Flat", build_seconds=math.inf).n == 9_000


def test_centroids_of_another_index_save_the_k_means(vectors):
    first = FaissIndex(2 * vectors, "IVF16,Flat")
    assert first.centroids.shape == (16, 4)
    second = FaissIndex(vectors, "IVF16,SQ8", centroids=first.centroids)
    np.testing.assert_array_equal(second.centroids, first.centroids)
    assert FaissIndex(vectors, "Flat").centroids is None


def test_centroids_that_are_kept_as_codes_serve_another_index_too(vectors):
    """About: 64 of them have more values than there are codes."""
    first = FaissIndex(2 * vectors, "IVF64(PQ4x4fs),PQ4x4fs")
    second = FaissIndex(vectors, "IVF64(PQ4x4fs),Flat", centroids=first.centroids)
    error = ((second.centroids - first.centroids) ** 2).mean() / first.centroids.var()
    assert error < 0.1  # of those of its own it would be 1 / 2 at least
    assert second.search(vectors[:5], 1).tolist() == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("recipe", "kind", "lists", "exact"),
    [
        ("Flat", "flat", 1, True),
        ("PQ4x4fs", "flat", 1, False),
        ("IVF16,Flat", "IVF", 16, True),
        ("PCA2,IVF16,Flat", "IVF", 16, False),
        ("IVF16,SQ8,RFlat", "IVF", 16, False),
        ("HNSW8", "HNSW", 1, True),
        ("PCA2,HNSW8", "HNSW", 1, False),
    ],
)
def test_what_an_index_says_of_itself(vectors, recipe, kind, lists, exact):
    index = FaissIndex(vectors, recipe)
    assert (index.kind, index.lists, index.has_exact_distances) == (kind, lists, exact)
    assert index.nbytes > 0


@pytest.mark.parametrize(
    ("effort", "text"),
    [
        (Effort(), ""),
        (Effort(nprobe=4), "nprobe 4"),
        (Effort(ef_search=64, overfetch=2.5), "efSearch 64, re-ranks 2.5 k"),
    ],
)
def test_an_effort_in_words(effort, text):
    assert str(effort) == text


def test_one_row_too_large_for_faiss_makes_no_other_unfindable(vectors, queries):
    store = Store(vectors)
    index = FaissIndex(store, "IVF16,SQ8")
    index.search(queries, 3)
    new = store.add(np.full((1, 4), 10 * MAX_COORDINATE))
    np.testing.assert_array_equal(index.search(queries, 20), ExactIndex(vectors).search(queries, 20))
    assert index.search(np.full((1, 4), 9 * MAX_COORDINATE), 1) == new


def test_small_tables_are_no_reason_to_print_warnings(vectors, capfd):
    FaissIndex(vectors, "IVF16,PQ4x4fs")
    FaissIndex(vectors, "PCA2,PQ2x4")
    assert capfd.readouterr() == ("", "")


def test_an_index_whose_lists_are_in_a_file_of_its_own_choice_is_refused(vectors, tmp_path):
    victim = tmp_path / "victim"
    made = faiss.index_factory(vectors.shape[1], "IVF4,Flat")
    made.train(vectors)
    lists = faiss.OnDiskInvertedLists(4, made.code_size, str(victim))
    made.replace_invlists(lists)
    made.add(vectors)
    data = faiss.serialize_index(made)
    before = victim.read_bytes()
    with pytest.raises(ValueError, match=r"the saved index is .*OnDiskInvertedLists.*, 'IVF4,Flat' makes"):
        FaissIndex(vectors, "IVF4,Flat", built=data)
    assert victim.read_bytes() == before


def test_an_index_of_another_recipe_is_refused(vectors):
    data = FaissIndex(vectors, "HNSW8").to_bytes()
    with pytest.raises(ValueError, match=r"the saved index is .*IndexHNSWFlat.*, 'IVF4,Flat' makes"):
        FaissIndex(vectors, "IVF4,Flat", built=data)


@pytest.mark.parametrize(
    ("recipe", "other", "what"),
    [
        ("IVF8,Flat", "IVF16,Flat", "nlist=8"),
        ("HNSW8", "HNSW9", r"links=\[0, 16\]"),
        ("SQ4", "SQ8", "code_size=2"),
        ("SQ8", "SQ4,RFlat", "code_size=4"),
        ("PQ4x4", "PQ2x8", "pq.nbits=4"),
        ("PQ4x4fs", "PQ2x4fs", "M=4"),
        ("IVF8,PQ4x4fs", "IVF8,PQ4x4fsr", "by_residual=False"),
        ("IVF8(SQ8),Flat", "IVF8(SQ4),Flat", "code_size=4"),
        ("IVF8_HNSW4,Flat", "IVF8_HNSW8,Flat", r"links=\[0, 8\]"),
    ],
)
def test_an_index_of_the_same_kind_but_other_sizes_is_refused(vectors, recipe, other, what):
    data = FaissIndex(vectors, recipe).to_bytes()
    FaissIndex(vectors, recipe, built=data)
    with pytest.raises(ValueError, match=f"the saved index is .*{what}.*, '{re.escape(other)}' makes"):
        FaissIndex(vectors, other, built=data)


def test_an_index_that_would_re_rank_more_than_its_recipe_is_refused(vectors):
    made = faiss.index_factory(vectors.shape[1], "SQ8,RFlat")
    made.train(vectors)
    made.add(vectors)
    faiss.downcast_index(made).k_factor = 900
    with pytest.raises(ValueError, match=r"k_factor=900.*, 'SQ8,RFlat' makes .*k_factor=1\.0"):
        FaissIndex(vectors, "SQ8,RFlat", built=faiss.serialize_index(made))


@pytest.mark.parametrize("recipe", ["IVF16,Flat", "IVF16,PQ4x4fs", "HNSW8", "Flat", "PQ4x4fs"])
def test_what_comes_after_what_went_is_found_with_the_same_k(vectors, recipe):
    store = Store(vectors)
    index = FaissIndex(store, recipe, effort=Effort(nprobe=16, ef_search=400, overfetch=4))
    far = np.full((1, vectors.shape[1]), 3.0, np.float32)
    before = index.search(far, 3)
    store.remove(before[0, :1])
    assert before[0, 0] not in index.search(far, 3)
    (new,) = store.add(far)
    assert index.search(far, 3)[0, 0] == new


def test_training_that_would_take_too_long_is_not_begun(vectors, monkeypatch):
    monkeypatch.setattr("wolpertinger.index.faiss_build._training_seconds", lambda *_: 100.0)
    with pytest.raises(TooSlowError, match="would take about 100 s, 60 s are left"):
        FaissIndex(vectors, "IVF4,Flat", build_seconds=60)


@pytest.mark.parametrize("wrong", [{"nprobe": 0}, {"ef_search": -1}, {"overfetch": 0.5}, {"overfetch": math.nan}])
def test_an_effort_below_nothing_is_an_error(wrong):
    with pytest.raises(ValueError, match="give a number of at least 1"):
        Effort(**wrong)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("HNSW0", "a graph of 0 links; give it 2 to 512"),
        ("HNSW1", "a graph of 1 links; give it 2 to 512"),
        ("IVF4_HNSW1,Flat", "a graph of 1 links; give it 2 to 512"),
        ("HNSW9999", "a graph of 9999 links; give it 2 to 512"),
        ("IVF999999999,Flat", "cannot be built on 400 vectors, 999999999 is too large"),
    ],
)
def test_recipes_that_would_end_the_process_are_refused(vectors, recipe, message):
    with pytest.raises(ValueError, match=f"index='{recipe}'.* {message}"):
        FaissIndex(vectors, recipe)
