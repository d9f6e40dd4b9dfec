"""Slates: ordered lists of distinct items, in a set that is never enumerated."""

from itertools import permutations

import numpy as np
import pytest
from gymnasium import spaces

from wolpertinger import ActionProduct, ActionTable, NoAllowedActionError, Slate, UnknownActionError
from wolpertinger.actions import read_allowed

ITEMS = ActionTable(np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32))
RNG = np.random.default_rng(1)


def test_a_slate_says_what_it_is():
    slates = Slate(ITEMS, size=4)
    assert slates.n == 12 * 11 * 10 * 9
    assert Slate(ITEMS, size=4, repeats=True).n == 12**4
    assert (slates.dim, slates.space) == (12, spaces.MultiDiscrete([12] * 4))
    vector = slates.embed([3, 1, 0, 7])
    np.testing.assert_array_equal(vector, ITEMS.vectors[[3, 1, 0, 7]].ravel())
    assert slates.embed(np.zeros((5, 2, 4), int)).shape == (5, 2, 12)
    assert slates.holds([[0, 1, 2, 3], [0, 1, 2, 0], [0, 1, 2, 12]]).tolist() == [True, False, False]
    assert Slate(ITEMS, size=4, repeats=True).holds([0, 1, 2, 0])


@pytest.mark.parametrize("size", [1, 3, 12])
def test_random_slates_hold_no_item_twice(size):
    drawn = Slate(ITEMS, size=size).sample(np.random.default_rng(0), 2_000)
    assert all(len(set(slate)) == size for slate in drawn.tolist())
    assert np.bincount(drawn[:, 0], minlength=12).min() > 100


@pytest.mark.parametrize("k", [1, 2, 9, 60])
def test_near_slates_are_distinct_and_the_first_is_filled_slot_by_slot(k):
    slates, protos = Slate(ITEMS, size=3), RNG.normal(size=(20, 9)).astype(np.float32)
    found = slates.nearest(protos, k)
    for proto, own in zip(protos, found, strict=True):
        expected = []
        for part in proto.reshape(3, 3):
            order = np.argsort(np.linalg.norm(ITEMS.vectors - part, axis=1))
            expected.append(next(item for item in order if item not in expected))
        np.testing.assert_array_equal(own[0], expected)
        assert all(len(set(slate)) == 3 for slate in own.tolist())
        if k <= 9:
            assert len({tuple(slate) for slate in own.tolist()}) == k


def test_the_nearest_slate_is_the_nearest_where_slots_do_not_compete():
    slates = Slate(ITEMS, size=2)
    protos = ITEMS.vectors[[3, 5, 7, 1]].reshape(2, 6) + 1e-3
    every = np.array(list(permutations(range(12), 2)))
    for proto, own in zip(protos, slates.nearest(protos, 1), strict=True):
        np.testing.assert_array_equal(own[0], every[np.linalg.norm(slates.embed(every) - proto, axis=1).argmin()])


def test_allowed_items():
    slates = Slate(ITEMS, size=3)
    allowed = read_allowed([[5, 1, 2, 8], [0, 1, 2]], slates)
    assert allowed.counts.tolist() == [24, 6]
    assert allowed.listed().counts.tolist() == [24, 6]
    good, bad = np.array([[1, 5, 8], [2, 1, 0]]), np.array([[1, 5, 1], [0, 1, 3]])
    assert np.all(allowed.holds(good[:, None]))
    assert not np.any(allowed.holds(bad[:, None]))
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert np.all(allowed.holds(allowed.sample(rng)[:, None]))
        assert np.all(allowed.holds(allowed.thin(rng, 4).states))
    found = slates.nearest_allowed(RNG.normal(size=(2, 9)).astype(np.float32), 5, allowed)
    assert np.all(np.concatenate(allowed.holds(found.states)))
    with pytest.raises(NoAllowedActionError, match="state 1 allows 2 items: a slate holds 3"):
        read_allowed([[0, 1, 2], [3, 4]], slates)
    with pytest.raises(UnknownActionError, match="state 0 allows action 12"):
        read_allowed([[0, 1, 12]], slates)


def test_slates_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"size=13: 12 items do not fill a slate"):
        Slate(ITEMS, size=13)
    with pytest.raises(TypeError, match="give a set of ids"):
        Slate(ActionProduct([np.arange(3.0)] * 2, space="multidiscrete"), size=2)
    assert Slate(ITEMS, size=13, repeats=True).slots == 13


def test_slates_as_files():
    slates = Slate(ITEMS, size=3)
    loaded = Slate.from_files({name: bytes(data) for name, data in slates.to_files().items()})
    assert (loaded.sha256, loaded.slots, loaded.repeats) == (slates.sha256, 3, False)
    assert loaded.sha256 != Slate(ITEMS, size=4).sha256
