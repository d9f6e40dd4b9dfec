"""Tables of vectors: what is accepted, and that nothing is copied."""

import tracemalloc

import numpy as np
import pytest
from gymnasium import spaces

from wolpertinger.actions import ActionTable


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)


def test_float32_is_used_without_a_copy_and_read_only(vectors):
    actions = ActionTable(vectors)
    assert actions.space == spaces.Discrete(50)
    assert np.shares_memory(actions.vectors, vectors)
    assert vectors.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        actions.vectors[0] = 0


def test_a_memory_map_is_used_without_a_copy(tmp_path):
    path = tmp_path / "vectors.npy"
    np.save(path, np.random.default_rng(0).normal(size=(200_000, 20)).astype(np.float32))
    mapped = np.load(path, mmap_mode="r")
    tracemalloc.start()
    actions = ActionTable(mapped)
    assert len(actions.sha256) == 64
    assert actions.low.shape == actions.high.shape == (20,)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.shares_memory(actions.vectors, mapped)
    assert peak < mapped.nbytes


def test_another_type_is_copied_once(tmp_path):
    path = tmp_path / "vectors.npy"
    np.save(path, np.random.default_rng(0).normal(size=(200_000, 20)))
    mapped = np.load(path, mmap_mode="r")
    tracemalloc.start()
    actions = ActionTable(mapped)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    one_copy = mapped.size * 4
    assert one_copy <= peak < 1.7 * one_copy
    np.testing.assert_array_equal(actions.vectors, mapped.astype(np.float32))


@pytest.mark.parametrize("given", [[[0, 1], [2, 3]], np.asfortranarray([[0.0, 1.0], [2.0, 3.0]], np.float32)])
def test_array_likes_are_accepted(given):
    np.testing.assert_array_equal(ActionTable(given).nearest([[2.0, 2.0]], 2), [[1, 0]])


@pytest.mark.parametrize("given", [None, [["a", "b"]], [[None, 1.0]], [[1j]]])
def test_what_is_not_real_numbers_is_an_error(given):
    with pytest.raises(TypeError, match=r"vectors are of type .*: give a 2-D array of real numbers"):
        ActionTable(given)


@pytest.mark.parametrize("given", [[], [[]], [1.0, 2.0], np.zeros((0, 4)), np.zeros((2, 2, 2))])
def test_the_wrong_shape_is_an_error(given):
    with pytest.raises(ValueError, match=r"vectors have shape .*: give \(n, dim\)"):
        ActionTable(given)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_rows_that_are_not_finite_are_listed(vectors, bad):
    given = vectors.astype(np.float64)
    given[[4, 40], 1] = bad
    with pytest.raises(ValueError, match=r"vectors must be finite float32 numbers: 2 of 50 rows are not \(row 4, 40\)"):
        ActionTable(given)


@pytest.mark.parametrize("index", ["exact", "auto"])
def test_recall_is_met_by_the_exact_scan(vectors, index):
    actions = ActionTable(vectors, index=index, recall=0.99)
    assert repr(actions) == "ActionTable(n=50, dim=3, index='exact')"
    expected = np.argsort(((vectors - vectors[7]) ** 2).sum(axis=1))[None, :9]
    np.testing.assert_array_equal(actions.nearest(vectors[[7]], 9), expected)


def test_recall_with_a_recipe_is_an_error(vectors):
    with pytest.raises(ValueError, match=r"recall=0\.9 cannot be promised by index='HNSW16'"):
        ActionTable(vectors, index="HNSW16", recall=0.9)


@pytest.mark.parametrize("recall", [0, -0.5, 1.01, float("nan")])
def test_recall_outside_0_to_1_is_an_error(vectors, recall):
    with pytest.raises(ValueError, match=rf"recall={recall!r} is not a share .* give a number in \(0, 1\]"):
        ActionTable(vectors, recall=recall)


@pytest.mark.parametrize("recall", ["0.9", True])
def test_recall_that_is_no_number_is_an_error(vectors, recall):
    with pytest.raises(TypeError, match=f"recall={recall!r} is not a number"):
        ActionTable(vectors, recall=recall)


def test_an_unknown_index_is_an_error(vectors):
    with pytest.raises(ValueError, match="index='fastest' is not a recipe FAISS can build"):
        ActionTable(vectors, index="fastest")


def test_the_fingerprint_changes_with_the_vectors_and_their_shape(vectors):
    changed = vectors.copy()
    changed[-1, -1] += 1
    prints = {ActionTable(v).sha256 for v in (vectors, changed, vectors.reshape(25, 6), vectors[:49])}
    assert len(prints) == 4
