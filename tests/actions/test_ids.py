"""Actions that are known by their number only: binary vectors, and the rest of an action set's contract."""

import json

import numpy as np
import pytest

from wolpertinger.actions import STORED, ActionIds
from wolpertinger.archive import CheckpointError


@pytest.mark.parametrize(("n", "bits"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10), (1025, 11), (2**20, 20)])
def test_a_vector_is_the_number_in_binary(n, bits):
    actions = ActionIds(n)
    ids = np.unique([0, n // 3, n // 2, n - 1])
    assert (actions.n, actions.dim, actions.space.n) == (n, bits, n)
    expected = [[1 if i // 2**bit % 2 else -1 for bit in range(bits)] for i in ids.tolist()]
    np.testing.assert_array_equal(actions.embed(ids), expected)
    assert actions.embed(ids).dtype == np.float32
    assert actions.is_numbered
    assert not actions.is_ordinal


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_bounds_are_those_of_all_vectors(n):
    actions = ActionIds(n)
    vectors = actions.embed(np.arange(n))
    np.testing.assert_array_equal(actions.low, vectors.min(axis=0))
    np.testing.assert_array_equal(actions.high, vectors.max(axis=0))
    assert len(np.unique(vectors, axis=0)) == n


def test_the_nearest_are_those_of_an_exact_scan():
    actions, queries = ActionIds(37), np.random.default_rng(0).normal(size=(5, 6))
    distances = ((actions.embed(np.arange(37)) - queries[:, None]) ** 2).sum(axis=-1)
    np.testing.assert_array_equal(actions.nearest(queries, 4), distances.argsort(axis=1, kind="stable")[:, :4])


@pytest.mark.parametrize("n", [0, -3, 2.5, True, "8"])
def test_what_is_no_count_is_refused(n):
    with pytest.raises(ValueError, match=r"n=.*: give a whole number of at least 1"):
        ActionIds(n)


def test_numbers_outside_are_refused():
    with pytest.raises(ValueError, match="action 8 is not in the set: give ids or digits from 0 to 7"):
        ActionIds(8).embed([8])
    assert ActionIds(8).holds([[-1, 0], [7, 8]]).tolist() == [[False, True], [True, False]]


def test_files_bring_the_set_back():
    loaded = STORED["ids"].from_files({name: bytes(data) for name, data in ActionIds(9).to_files().items()})
    assert (loaded.n, loaded.sha256, repr(loaded)) == (9, ActionIds(9).sha256, "ActionIds(9)")
    assert ActionIds(10).sha256 != ActionIds(9).sha256
    with pytest.raises(CheckpointError, match=r"ids\.json in the file does not fit"):
        ActionIds.from_files({"ids.json": b"{}"})


def test_some_of_the_ids_keep_their_numbers_and_vectors(tmp_path):
    all_of, some = ActionIds(37), ActionIds(37).only(np.array([30, 4, 4, 9]))
    assert (some.n, some.dim, some.space) == (3, all_of.dim, all_of.space)
    np.testing.assert_array_equal(some.embed([4, 9]), all_of.embed([4, 9]))
    assert some.holds([4, 5, 30]).tolist() == [True, False, True]
    assert np.concatenate(list(some.blocks(2))).tolist() == [4, 9, 30]
    assert set(some.sample(np.random.default_rng(0), 100)) == {4, 9, 30}
    assert sorted(some.nearest(np.zeros((1, all_of.dim)), 3)[0]) == [4, 9, 30]
    loaded = ActionIds.from_files(some.to_files())
    assert (loaded.n, repr(loaded)) == (3, "3 of ActionIds(37)")


@pytest.mark.parametrize("only", [[], [40], ["4"], 4])
def test_ids_that_are_not_of_the_set_are_refused_from_files(only):
    with pytest.raises(CheckpointError, match="only: ids of the set are needed"):
        ActionIds.from_files({"ids.json": json.dumps({"n": 37, "only": only}).encode()})
