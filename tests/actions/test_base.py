"""What a set of one's own gets from the base class, and how k is read."""

import numpy as np
import pytest
from gymnasium import spaces

from wolpertinger import ActionIds, ActionProduct, ActionSet, ActionTable, TooManyActionsError
from wolpertinger.actions import Allowed, count_actions, resolve_k, same_actions


class Dial(ActionSet):
    """Levels of a dial, each in the middle of its part of [0, 1]; as ids, or as digits of two such dials."""

    dim = 1

    def __init__(self, n, space=None):
        self._n, self._space = n, space or spaces.Discrete(n)

    @property
    def space(self):
        return self._space

    @property
    def n(self):
        return self._n

    @property
    def low(self):
        return np.zeros(1, np.float32)

    @property
    def high(self):
        return np.ones(1, np.float32)

    def embed(self, actions):
        ids = np.asarray(actions)
        if isinstance(self.space, spaces.MultiDiscrete):
            ids = np.ravel_multi_index(np.moveaxis(ids, -1, 0), self.space.nvec)
        return ((ids[..., None] + 0.5) / self.n).astype(np.float32)

    def nearest(self, protos, k):
        raise NotImplementedError


def dials():
    return Dial(6), Dial(6, spaces.MultiDiscrete([2, 3]))


def test_a_set_must_say_what_nobody_can_guess():
    class Silent(ActionSet):
        pass

    with pytest.raises(TypeError, match=r"dim.*embed.*high.*low.*n.*nearest.*space"):
        Silent()


@pytest.mark.parametrize("actions", dials(), ids=["ids", "digits"])
@pytest.mark.parametrize("size", [1, 4, 6, 100])
def test_by_default_every_action_comes_once_in_blocks(actions, size):
    blocks = list(actions.blocks(size))
    assert all(0 < len(block) <= size for block in blocks)
    found = np.concatenate(blocks)
    assert all(action in actions.space for action in found)
    np.testing.assert_allclose(actions.embed(found)[:, 0], (np.arange(6) + 0.5) / 6, rtol=1e-6)


def test_more_actions_than_ids_are_not_gone_through():
    huge = Dial(2**63, spaces.MultiDiscrete([2] * 63))
    assert not huge.is_listable
    with pytest.raises(TooManyActionsError, match=f"is too large to go through: {2**63} actions"):
        huge.blocks(10)
    assert Dial(2**63 - 1, spaces.MultiDiscrete([7, (2**63 - 1) // 7])).is_listable


@pytest.mark.parametrize("actions", dials(), ids=["ids", "digits"])
def test_by_default_samples_are_uniform_over_the_space(actions):
    drawn = actions.sample(np.random.default_rng(0), 6_000)
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert drawn.shape == (6_000, *actions.space.shape)
    assert counts / 6_000 == pytest.approx(np.full(6, 1 / 6), abs=0.02)


def test_by_default_the_space_tells_what_is_held():
    ids, digits = dials()
    assert ids.holds([[-1, 0], [5, 6]]).tolist() == [[False, True], [True, False]]
    assert digits.holds([[0, 0], [1, 2], [1, 3], [2, 0], [-1, 0]]).tolist() == [True, True, False, False, False]


def test_the_default_fingerprint_is_of_kind_size_bounds_and_vectors():
    class Other(Dial):
        pass

    class Wider(Dial):
        high = np.full(1, 2, np.float32)

    class Shifted(Dial):
        def embed(self, actions):
            return super().embed(actions) / 2

    dial = Dial(6)
    assert dial.sha256 == Dial(6).sha256
    assert len(dial.sha256) == 64
    sets = [dial, Other(6), Dial(7)]
    assert len({actions.sha256 for actions in sets}) == len(sets)
    for kind in (Wider, Shifted):
        same_name = type("Dial", (kind,), {})(6)
        assert same_name.sha256 != dial.sha256


def test_the_other_defaults_say_that_there_is_nothing_to_say():
    dial = Dial(6)
    assert (dial.version, dial.stats(3), dial.kind) == (0, {}, None)
    assert dial.with_space(spaces.MultiDiscrete([2, 3])) is dial
    assert dial.to_files() == {}
    with pytest.raises(TypeError, match="Dial is not held in files: give actions= to load"):
        Dial.from_files({})


def test_spaces_hold_the_same_actions_whatever_their_integers():
    assert count_actions(spaces.Discrete(7)) == 7
    assert count_actions(spaces.MultiDiscrete([2] * 100)) == 2**100
    assert same_actions(spaces.Discrete(7), spaces.Discrete(7, dtype=np.int32))
    assert not same_actions(spaces.Discrete(7), spaces.Discrete(8))
    assert same_actions(spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([2, 3], dtype=np.int32))
    assert not same_actions(spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([3, 2]))
    assert not same_actions(spaces.MultiDiscrete([6]), spaces.Discrete(6))
    assert not same_actions(spaces.Discrete(6), spaces.MultiDiscrete([6]))


@pytest.mark.parametrize(
    ("k", "n", "count"),
    [
        (0.05, 13_138, 656),
        (0.29, 100, 29),  # 28.999999999999996 in floats
        (0.05, 835, 41),
        (1.0, 7, 7),
        (1e-9, 7, 1),
        (1e-25, 2**100, 126_765),
        (1e-24, 10**30, 10**6),
        (1, 7, 1),
        (7, 7, 7),
        (2**80, 2**100, 2**80),
    ],
)
def test_counts_and_shares_are_exact(k, n, count):
    assert resolve_k(k, n) == count


@pytest.mark.parametrize("k", [0, -3, 11])
def test_a_count_out_of_range_is_an_error(k):
    with pytest.raises(ValueError, match=f"^k={k} is out of range for 10 actions: give a count from 1 to 10"):
        resolve_k(k, 10)


@pytest.mark.parametrize("k", [0.0, -0.1, 1.0001, 5.0, float("nan"), float("inf")])
def test_a_share_outside_0_to_1_is_an_error(k):
    with pytest.raises(ValueError, match=rf"^k={k!r} is not a share: give .* a share of A in \(0, 1\]"):
        resolve_k(k, 10)


@pytest.mark.parametrize("k", [True, "5", None, 1j])
def test_what_is_no_number_is_an_error(k):
    with pytest.raises(TypeError, match=r"^k=.* is not a number: give a count from 1 to 10"):
        resolve_k(k, 10)


def test_a_share_of_a_huge_set_is_refused_by_its_count():
    with pytest.raises(
        ValueError, match=r"k=0\.05 of \d+ actions are \d+ candidates: give a count of 16777216 at most"
    ):
        resolve_k(0.05, 2**100)


MASKED = np.ma.masked_array([[0.0, 1.0]], [[True, False]])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ActionTable(MASKED), "vectors"),
        (lambda: ActionTable([MASKED[0], MASKED[0]]), "vectors"),
        (lambda: ActionTable(np.eye(2)).add(MASKED), "vectors"),
        (lambda: ActionTable(np.eye(2)).nearest(MASKED, 1), "queries"),
        (lambda: ActionTable(np.eye(2)).remove(MASKED.astype(int)), "actions"),
        (lambda: ActionTable(np.eye(2)).embed(MASKED.astype(int)), "actions"),
        (lambda: ActionProduct([MASKED[0]]), "the levels of factor 0"),
    ],
)
def test_a_mask_is_not_dropped(call, name):
    with pytest.raises(TypeError, match=rf"{name}: a masked array; give a plain one, such as x\.filled\(0\)"):
        call()


@pytest.mark.parametrize("actions", [ActionTable(np.eye(3)), ActionProduct([[0, 1, 2]]), ActionIds(3)], ids=repr)
def test_what_is_drawn_or_listed_is_checked(actions):
    with pytest.raises(TypeError, match=r"rng=0: give a generator, np\.random\.default_rng\(seed\)"):
        actions.sample(0, 3)
    with pytest.raises(ValueError, match="n=-1: give a whole number of at least 0"):
        actions.sample(np.random.default_rng(0), -1)
    with pytest.raises(ValueError, match=r"n=1,000,000,000,000 actions would take 8,000,000,000,000 bytes of memory"):
        actions.sample(np.random.default_rng(0), 10**12)
    with pytest.raises(ValueError, match="size=0: give a whole number of at least 1"):
        actions.blocks(0)


@pytest.mark.parametrize("states", [np.array(5), 5, "12", None])
def test_what_no_state_allows_is_refused(states):
    with pytest.raises(TypeError, match="give a list with the allowed actions of each state"):
        Allowed(states)


def test_huge_counts_are_shown_by_their_bits():
    many = ActionProduct([[0, 1]] * 15_000)
    with pytest.raises(ValueError, match=r"k=0 is out of range for <int of 15,001 bits> actions"):
        many.nearest(np.zeros((1, 15_000)), 0)
    with pytest.raises(ValueError, match=r"k=100,000,000,000 would take [\d,]+ bytes of memory"):
        ActionProduct([[0, 1]] * 80).nearest(np.zeros((1, 80)), 10**11)
