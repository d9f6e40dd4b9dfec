"""Rows come and go, ids stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolpertinger.index import store as store_module
from wolpertinger.index.store import Store, as_store


@pytest.fixture
def vectors():
    return np.arange(20, dtype=np.float32).reshape(10, 2)


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_a_store_is_a_dict_from_ids_to_rows(data):
    """Any order of additions and removals, against a twin that is a plain dict."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    first = rng.normal(size=(data.draw(st.integers(1, 6)), 3)).astype(np.float32)
    store, twin, every = Store(first), dict(enumerate(first)), list(first)
    for _ in range(data.draw(st.integers(0, 8))):
        version = store.version
        if data.draw(st.booleans()) or len(twin) == 1:
            rows = rng.normal(size=(data.draw(st.integers(1, 80)), 3)).astype(np.float32)
            ids = store.add(rows)
            assert ids.tolist() == list(range(len(every), len(every) + len(rows)))
            twin |= dict(zip(ids.tolist(), rows, strict=True))
            every += list(rows)
        else:
            gone = rng.choice(list(twin), data.draw(st.integers(1, len(twin) - 1)), replace=False)
            store.remove(gone)
            for id in gone:
                del twin[id]
        assert store.version > version
    everything = np.stack(every)
    assert (store.n, store.size, store.dim) == (len(twin), len(every), 3)
    np.testing.assert_array_equal(store.ids, sorted(twin))
    np.testing.assert_array_equal(store.removed, sorted(set(range(len(every))) - twin.keys()))
    np.testing.assert_array_equal(store.vectors(), everything)
    asked = rng.integers(len(every), size=(4, 5))
    np.testing.assert_array_equal(store.take(asked), everything[asked])
    np.testing.assert_array_equal(store.holds(asked), np.vectorize(twin.__contains__)(asked))
    np.testing.assert_array_equal(store.reduce(np.minimum), np.min(list(twin.values()), axis=0))
    np.testing.assert_array_equal(store.reduce(np.maximum), np.max(list(twin.values()), axis=0))
    for start in (0, len(first) - 1, len(first), len(every)):
        blocks = list(store.blocks(4, start))
        np.testing.assert_array_equal(np.concatenate([np.empty((0, 3)), *map(store.rows, blocks)]), everything[start:])
        assert all(block.stop - block.start <= 4 for block in blocks)


def test_ids_that_were_never_given_are_not_there(vectors):
    store = Store(vectors)
    store.remove(3)
    np.testing.assert_array_equal(
        store.holds(np.array([-1, 0, 3, 9, 10, 2**40])), [False, True, False, True, False, False]
    )


def test_one_row_by_a_single_id(vectors):
    store = Store(vectors)
    new = store.add([[7.0, 8.0]])
    np.testing.assert_array_equal(store.take(np.array(4)), vectors[4])
    np.testing.assert_array_equal(store.take(np.array(new[0])), [7, 8])


def test_the_table_is_used_as_it_is_until_rows_are_added(vectors):
    store = Store(vectors)
    store.remove([0])
    assert store.vectors() is vectors
    store.add(vectors[:1])
    assert np.shares_memory(store.rows(slice(0, 10)), vectors)
    assert len(store.vectors()) == 11


def test_added_rows_are_copied(vectors):
    store, rows = Store(vectors), np.ones((1, 2), np.float32)
    store.add(rows)
    rows[:] = 5
    np.testing.assert_array_equal(store.take(np.array([10])), [[1, 1]])


def test_a_reduction_in_parts_is_the_same(vectors, monkeypatch):
    store = Store(vectors)
    store.add([[-5.0, 90.0]])
    store.remove([0, 1, 2])
    monkeypatch.setattr(store_module, "ROWS_PER_REDUCTION", 2)  # the first block has no row left
    np.testing.assert_array_equal(store.reduce(np.minimum), [-5, 7])
    np.testing.assert_array_equal(store.reduce(np.maximum), [18, 90])


def test_nothing_to_remove_changes_nothing(vectors):
    store = Store(vectors)
    store.remove(np.empty(0, np.int64))
    assert (store.n, store.version) == (10, 0)


@pytest.mark.parametrize(
    ("ids", "error", "match"),
    [
        ([10], ValueError, "action 10 is not in the set: give ids or digits from 0 to 9"),
        ([-1], ValueError, "action -1 is not in the set"),
        ([3], ValueError, "id 3 was removed already"),
        ([0, 3], ValueError, "id 3 was removed already"),
        (np.setdiff1d(np.arange(10), 3), ValueError, "9 ids to remove of 9: at least one action must stay"),
        ([1.0], TypeError, "actions are of type float64: give integers"),
    ],
)
def test_what_cannot_be_removed_is_an_error_and_nothing_is(vectors, ids, error, match):
    store = Store(vectors)
    store.remove([3, 3])
    with pytest.raises(error, match=match):
        store.remove(ids)
    assert (store.n, store.version) == (9, 1)


@pytest.mark.parametrize(
    ("rows", "error", "match"),
    [
        (np.ones((2, 3)), ValueError, r"vectors have 3 dimensions: give \(n, 2\), as the others have"),
        (np.ones(2), ValueError, r"vectors have shape \(2,\): give \(n, dim\)"),
        ([[1.0, np.nan]], ValueError, r"vectors must be finite float32 numbers: 1 of 1 rows are not \(row 0\)"),
        ([["a", "b"]], TypeError, "vectors are of type"),
    ],
)
def test_what_cannot_be_added_is_an_error_and_nothing_is(vectors, rows, error, match):
    store = Store(vectors)
    with pytest.raises(error, match=match):
        store.add(rows)
    assert (store.n, store.size, store.version) == (10, 10, 0)


def test_more_rows_than_ids_are_an_error(vectors, monkeypatch):
    monkeypatch.setattr(store_module, "MAX_ROWS", 11)
    store = Store(vectors)
    store.add(vectors[:1])
    with pytest.raises(ValueError, match="12 vectors are too many: 11 at most"):
        store.add(vectors[:1])
    assert store.size == 11


def test_a_store_stays_itself(vectors):
    store = Store(vectors)
    assert as_store(store) is store
    assert as_store(vectors).n == 10
