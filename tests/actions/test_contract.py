"""The contract of every action set, through one tester."""

import numpy as np
import pytest
from gymnasium import spaces

from wolpertinger.actions import STORED, ActionProduct, ActionSet, ActionTable

LEVELS = [np.array([0.5, -1.0, 0.5, 2.0]), np.eye(3), np.linspace(-1, 1, 5), [[0.25, 1.0], [0.25, 1.0]]]
N, DIM = 4 * 3 * 5 * 2, 1 + 3 + 1 + 2


def every_action():
    """All vectors of the product, in the order of their ids."""
    digits = np.indices((4, 3, 5, 2)).reshape(4, -1)
    return np.concatenate(
        [np.asarray(f, float).reshape(len(f), -1)[d] for f, d in zip(LEVELS, digits, strict=True)], axis=1
    )


SETS = {
    **{f"table {name}": name for name in ["exact", "auto", "Flat", "IVF16,Flat", "HNSW16", "IVF16,SQ8"]},
    "product discrete": None,
    "product multidiscrete": None,
}
EXACT = ["table exact", "table auto", "product discrete", "product multidiscrete"]


def make(name):
    if name.startswith("product"):
        return ActionProduct(LEVELS, space=name.split()[1])
    return ActionTable(every_action(), index=SETS[name])


BUILT = {}


@pytest.fixture(params=SETS)
def actions(request):
    """One action set of 120 actions, half of them duplicates: the same set in every form."""
    if request.param not in BUILT:
        BUILT[request.param] = make(request.param)
    return BUILT[request.param]


@pytest.fixture
def name(request):
    return request.node.callspec.params["actions"]


def as_ids(actions, chosen):
    return actions.ids(chosen) if isinstance(actions.space, spaces.MultiDiscrete) else chosen


def brute_force(queries, k):
    found = []
    for query in queries:
        distances = ((every_action() - query) ** 2).sum(axis=1)
        found.append(sorted(range(N), key=lambda i, d=distances: (d[i], i))[:k])
    return np.array(found)


def test_an_action_set_keeps_the_protocol(actions):
    assert isinstance(actions, ActionSet)
    assert type(actions.n) is int
    assert (actions.n, actions.dim) == (N, DIM)
    np.testing.assert_array_equal(actions.low, every_action().min(axis=0))
    np.testing.assert_array_equal(actions.high, every_action().max(axis=0))
    assert len(repr(actions)) < 120


@pytest.mark.parametrize("k", [1, 2, 13, 60, N])
def test_nearest_gives_k_distinct_members_nearest_first(actions, name, k):
    queries = np.random.default_rng(k).integers(-16, 17, size=(8, DIM)) / 8  # dyadic: distances are exact, and tie
    chosen = actions.nearest(queries, k)
    assert chosen.dtype == np.int64
    assert chosen.shape == (8, k, *actions.space.shape)
    assert all(action in actions.space for action in chosen[0])
    ids = as_ids(actions, chosen)
    assert all(len(set(row)) == k for row in ids.tolist())
    distances = ((actions.embed(chosen) - queries[:, None]) ** 2).sum(axis=-1)
    assert (np.diff(distances, axis=1) >= 0).all()
    tied = np.diff(distances, axis=1) == 0
    assert (np.diff(ids, axis=1)[tied] > 0).all()
    if name in EXACT:
        np.testing.assert_array_equal(ids, brute_force(queries, k))


def test_embed_gives_the_vectors_of_any_shape(actions):
    ids = np.arange(N).reshape(4, 5, 6)
    given = actions.digits(ids) if isinstance(actions.space, spaces.MultiDiscrete) else ids
    vectors = actions.embed(given)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, every_action().reshape(4, 5, 6, DIM).astype(np.float32))
    np.testing.assert_array_equal(actions.embed(given[0, 0, 3]), every_action()[3].astype(np.float32))
    assert actions.embed(given[:0]).shape == (0, 5, 6, DIM)


@pytest.mark.parametrize("bad", [-1, N])
def test_an_action_outside_the_set_is_an_error(actions, bad):
    given = np.zeros((2, *actions.space.shape), np.int64)
    given.flat[-1] = bad
    with pytest.raises(ValueError, match=f"action {bad} is not in the set: give ids or digits from 0 to"):
        actions.embed(given)


@pytest.mark.parametrize("dtype", [float, bool, object])
def test_an_action_that_is_no_integer_is_an_error(actions, dtype):
    with pytest.raises(TypeError, match=r"actions are of type .*: give integers"):
        actions.embed(np.zeros((2, *actions.space.shape), dtype))


@pytest.mark.parametrize("k", [0, -1, N + 1])
def test_k_out_of_range_is_the_same_error_everywhere(actions, k):
    with pytest.raises(ValueError, match=f"^k={k} is out of range for {N} actions: give a count from 1 to {N}"):
        actions.nearest(np.zeros((1, DIM)), k)


@pytest.mark.parametrize("k", [True, "3", 0.5])
def test_k_that_is_no_count_is_the_same_error_everywhere(actions, k):
    with pytest.raises(TypeError, match=f"^k={k!r} is not a count: give a count from 1 to {N}"):
        actions.nearest(np.zeros((1, DIM)), k)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_proto_action_that_is_not_finite_is_an_error(actions, bad):
    with pytest.raises(ValueError, match=r"2 of 2 rows are not \(row 0, 1\)"):
        actions.nearest(np.full((2, DIM), bad), 1)


@pytest.mark.parametrize("shape", [(DIM,), (1, DIM + 1), (2, 1, DIM)])
def test_a_proto_action_of_the_wrong_shape_is_an_error(actions, shape):
    with pytest.raises(ValueError, match=rf"queries have shape .*: give \(batch, {DIM}\)"):
        actions.nearest(np.zeros(shape), 1)


@pytest.mark.parametrize("size", [1, 7, N, 2 * N])
def test_blocks_hold_every_action_once(actions, size):
    assert actions.is_listable
    blocks = list(actions.blocks(size))
    assert all(0 < len(block) <= size for block in blocks)
    found = np.concatenate(blocks)
    assert found.shape == (N, *actions.space.shape)
    assert all(action in actions.space for action in found)
    np.testing.assert_array_equal(as_ids(actions, found), np.arange(N))


def test_samples_are_uniform(actions):
    drawn = actions.sample(np.random.default_rng(0), 100 * N)
    assert drawn.shape == (100 * N, *actions.space.shape)
    ids, counts = np.unique(as_ids(actions, drawn), return_counts=True)
    np.testing.assert_array_equal(ids, np.arange(N))
    assert (abs(counts - 100) < 50).all()  # five standard deviations


def test_the_set_holds_its_actions_and_no_others(actions):
    (whole,) = actions.blocks(N)
    inside = whole.reshape(2, N // 2, *actions.space.shape)
    assert actions.holds(inside).shape == (2, N // 2)
    assert actions.holds(inside).all()
    for bad in (-1, N):
        outside = np.zeros((2, *actions.space.shape), np.int64)
        outside.flat[-1] = bad
        assert actions.holds(outside).tolist() == [True, False]


def test_a_set_to_which_nothing_was_done_is_of_version_0(actions):
    assert actions.version == 0


def test_files_bring_the_set_back(actions):
    files = {name: bytes(data) for name, data in actions.to_files().items()}
    loaded = STORED[actions.kind].from_files(files)
    assert (type(loaded), loaded.space, loaded.sha256) == (type(actions), actions.space, actions.sha256)
    queries = np.random.default_rng(0).normal(size=(5, DIM))
    np.testing.assert_array_equal(loaded.nearest(queries, 7), actions.nearest(queries, 7))


def test_an_empty_batch_gives_an_empty_result(actions):
    assert actions.nearest(np.empty((0, DIM)), 3).shape == (0, 3, *actions.space.shape)


def test_the_fingerprint_is_of_the_contents(actions, name):
    assert len(actions.sha256) == 64
    assert make(name).sha256 == actions.sha256
