"""Products of levels: the k nearest against brute force, and sizes that cannot be enumerated."""

import itertools
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wolpertinger import CheckpointError, TooManyActionsError
from wolpertinger.actions import ActionProduct, product


def brute_force(levels, query, k):
    """Digits of the k nearest, sorted by (distance, digits), in exact arithmetic."""
    start, tables = 0, []
    for factor in levels:
        rows = np.asarray(factor, float).reshape(len(factor), -1)
        part = query[start : start + rows.shape[1]]
        tables.append([sum((Fraction(x) - Fraction(q)) ** 2 for x, q in zip(row, part, strict=True)) for row in rows])
        start += rows.shape[1]
    combinations = itertools.product(*(range(len(factor)) for factor in levels))
    return sorted(combinations, key=lambda c: (sum(t[d] for t, d in zip(tables, c, strict=True)), c))[:k]


DYADIC = st.integers(-8, 8).map(lambda i: i / 4)  # their squares and sums are exact, and they tie often
FACTOR = st.one_of(
    hnp.arrays(np.float64, st.integers(1, 9), elements=DYADIC),
    hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 3)), elements=DYADIC),
)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_ties_included_it_equals_brute_force(data):
    levels = data.draw(st.lists(FACTOR, min_size=1, max_size=4))
    if data.draw(st.booleans()):
        levels.append(levels[0])  # equal factors are looked up together
    actions = ActionProduct(levels)
    actions = actions.with_space(data.draw(st.sampled_from(["discrete", "multidiscrete"])))
    queries = data.draw(hnp.arrays(np.float64, (3, actions.dim), elements=DYADIC))
    k = data.draw(st.integers(1, min(actions.n, 40)))
    found = actions.nearest(queries, k)
    digits = actions.digits(found) if isinstance(actions.space, spaces.Discrete) else found
    for row, query in zip(digits, queries, strict=True):
        assert [tuple(d) for d in row.tolist()] == brute_force(levels, query, k)


@pytest.mark.parametrize("seed", range(15))
def test_random_levels_and_queries_equal_brute_force(seed):
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.integers(-4, 5, size=3)  # of very different ranges
    levels = [rng.normal(size=rng.integers(1, 13)) * scale for scale in scales]
    actions = ActionProduct(levels, space="multidiscrete")
    queries = rng.normal(size=(4, 3)) * scales
    for k in {1, min(5, actions.n), actions.n}:
        for row, query in zip(actions.nearest(queries, k), queries, strict=True):
            assert [tuple(d) for d in row.tolist()] == brute_force(levels, query, k)


def test_a_fine_factor_beside_a_wide_one_keeps_its_order():
    fine, wide = np.linspace(-1, 1, 1_000_001), np.linspace(-1e5, 1e5, 21)
    actions = ActionProduct([wide, fine], space="multidiscrete")
    found = actions.nearest([[3e4 + 5, 0.2000003]], 5)[0]
    assert (found[:, 0] == 13).all()
    np.testing.assert_array_equal(found[:, 1], [600_000, 600_001, 599_999, 600_002, 599_998])


def test_sums_that_are_equal_in_any_order_tie_by_id():
    levels = [np.array([0.1, 0.7])] * 6  # not dyadic: plain float sums depend on their order
    actions = ActionProduct(levels)
    found = actions.nearest(np.full((1, 6), 0.2), 64)[0]
    flips = actions.digits(found).sum(axis=1)  # the distance depends on nothing else
    assert (np.diff(flips) >= 0).all()
    assert (np.diff(found)[np.diff(flips) == 0] > 0).all()
    mixed = ActionProduct([np.array([0.1, 0.7]), np.array([0.1, 0.4]), np.array([0.1, 0.7])])
    np.testing.assert_array_equal(mixed.nearest(np.full((1, 3), 0.0), 8), [[0, 2, 1, 4, 3, 6, 5, 7]])


def test_thousand_nearest_of_2_to_the_100_plans():
    actions = ActionProduct([np.eye(2)] * 100)
    assert actions.n == 2**100
    assert actions.space == spaces.MultiDiscrete([2] * 100)
    queries = np.random.default_rng(0).random((1, 200))
    tracemalloc.start()
    found = actions.nearest(queries, 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6
    assert len({tuple(row) for row in found[0].tolist()}) == 1000
    # A plan costs the sum of the gaps of the steps in which it differs from the best one.
    best, gap = queries.reshape(100, 2).argmax(axis=1), 2 * np.abs(np.diff(queries.reshape(100, 2)))[:, 0]
    np.testing.assert_array_equal(found[0, 0], best)
    costs = ((found[0] != best) * gap).sum(axis=1)
    assert (np.diff(costs) >= -1e-12).all()
    cheapest = [0.0]
    for step in gap:
        cheapest = sorted(cheapest + [cost + step for cost in cheapest])[:1000]
    np.testing.assert_allclose(costs, cheapest, rtol=0, atol=1e-12)


def test_ties_among_2_to_the_100_plans_go_by_their_digits():
    actions = ActionProduct([np.eye(2)] * 100)
    found = actions.nearest(np.zeros((2, 200)), 1000)  # every plan is as near as any other
    numbers = [int("".join(map(str, row)), 2) for row in found[1].tolist()]
    assert numbers == list(range(1000))


@pytest.mark.parametrize("seed", range(10))
def test_one_neighbour_is_the_first_of_two(seed):
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(np.repeat(np.linspace(-1, 1, 9), 3))  # unsorted, every level three times
    levels = [shuffled, rng.normal(size=(5, 2)), [0.3], shuffled, [2.0, -1.0], np.eye(3), np.eye(2)]
    actions = ActionProduct(levels, space=["discrete", "multidiscrete"][seed % 2])
    queries = rng.choice(np.linspace(-1.5, 1.5, 25), size=(40, actions.dim))  # on levels, halfway and beyond
    np.testing.assert_array_equal(actions.nearest(queries, 1), actions.nearest(queries, 2)[:, :1])


def test_an_actions_vector_is_its_levels_side_by_side():
    levels = [np.arange(4.0), np.arange(8.0).reshape(4, 2) + 10, np.arange(12.0).reshape(3, 4) + 20, np.arange(4.0)]
    for chosen in (levels, levels[1:3], levels[2:3] * 2):  # widths 1, 2, 4, 1; 2, 4; 4, 4
        actions = ActionProduct(chosen)
        digits = actions.digits(np.arange(actions.n))
        expected = [np.concatenate([np.atleast_1d(f[d]) for f, d in zip(chosen, row, strict=True)]) for row in digits]
        np.testing.assert_array_equal(actions.embed(np.arange(actions.n)), expected)
        np.testing.assert_array_equal(actions.ids(digits), np.arange(actions.n))
        assert actions.embed(0).shape == (actions.dim,)
        assert actions.embed(np.empty((2, 0), int)).shape == (2, 0, actions.dim)


@pytest.mark.parametrize("k", [1, 5000])
def test_a_million_levels(k):
    rng = np.random.default_rng(0)
    levels = rng.permutation(np.repeat(np.linspace(-1, 1, 500_000), 2))  # unsorted, every level twice
    queries = np.array([[-1.5], [-1.0], [0.123456], [levels[7]], [1.0]])
    found = ActionProduct([levels]).nearest(queries, k)
    for row, query in zip(found, queries, strict=True):
        expected = np.lexsort((np.arange(len(levels)), (levels - query) ** 2))[:k]
        np.testing.assert_array_equal(row, expected)


def test_equal_levels_go_by_digit_on_either_side_of_the_query():
    levels = np.tile([0.0, 1.0], 50)
    found = ActionProduct([levels]).nearest([[0.25], [0.5], [0.75], [2.0]], 4)
    np.testing.assert_array_equal(found, [[0, 2, 4, 6], [0, 1, 2, 3], [1, 3, 5, 7], [1, 3, 5, 7]])


@pytest.mark.parametrize("k", [1, 30])
def test_blocks_of_queries_change_nothing(k, monkeypatch):
    levels = [np.linspace(-1, 1, 9)] * 4
    queries = np.random.default_rng(0).normal(size=(10, 4))
    whole = ActionProduct(levels).nearest(queries, k)
    monkeypatch.setattr(product, "BLOCK_BYTES", 1)
    np.testing.assert_array_equal(ActionProduct(levels).nearest(queries, k), whole)


def test_ids_and_digits_convert_both_ways_first_factor_most_significant():
    actions = ActionProduct([np.arange(3), np.eye(2), np.arange(5)])
    np.testing.assert_array_equal(actions.digits([0, 1, 5, 29]), [[0, 0, 0], [0, 0, 1], [0, 1, 0], [2, 1, 4]])
    ids = np.arange(30).reshape(2, 15)
    np.testing.assert_array_equal(actions.ids(actions.digits(ids)), ids)


def test_the_largest_set_with_ids_has_ids_and_the_next_has_digits():
    largest = ActionProduct([np.eye(2)] * 62)
    assert largest.space == spaces.Discrete(2**62)
    np.testing.assert_array_equal(largest.digits(2**62 - 1), [1] * 62)
    assert largest.nearest(np.tile([0.0, 1.0], 62)[None], 1)[0, 0] == 2**62 - 1
    too_large = ActionProduct([np.eye(2)] * 63)
    assert isinstance(too_large.space, spaces.MultiDiscrete)
    with pytest.raises(ValueError, match=f"{2**63} actions are too many for ids in 63 bits"):
        too_large.ids([0] * 63)


@pytest.mark.parametrize("space", ["discrete", spaces.Discrete(10)])
def test_ids_for_too_many_actions_are_an_error(space):
    with pytest.raises(ValueError, match=f"{2**100} actions are too many for ids in 63 bits"):
        ActionProduct([np.eye(2)] * 100, space=space)


@pytest.mark.parametrize(
    "space", [spaces.Discrete(6), spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([2, 3], dtype=np.int32)]
)
def test_a_space_of_the_same_size_is_taken(space):
    actions = ActionProduct([[0, 1], [0, 1, 2]])
    assert actions.with_space(space).space is space
    assert actions.space == spaces.Discrete(6)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(7),
        spaces.Discrete(6, start=1),
        spaces.MultiDiscrete([3, 2]),
        spaces.MultiDiscrete([2, 3], start=[1, 0]),
        spaces.MultiDiscrete([[2, 3]]),
        spaces.Box(0, 1),
        "continuous",
    ],
)
def test_a_space_that_does_not_fit_is_an_error_with_both_sizes(space):
    with pytest.raises(ValueError, match=r"space=.* does not fit 6 actions of 2 factors: give Discrete\(6\), Multi"):
        ActionProduct([[0, 1], [0, 1, 2]], space=space)


def test_no_factor_is_an_error():
    with pytest.raises(ValueError, match="levels are empty: give at least one factor"):
        ActionProduct([])


@pytest.mark.parametrize("factor", [[], [[]], 3.0, np.zeros((2, 2, 2)), np.zeros((0, 2))])
def test_a_factor_of_the_wrong_shape_is_named(factor):
    with pytest.raises(ValueError, match=r"factor 1 has levels of shape .*: give \(i,\) or \(i, m\)"):
        ActionProduct([[0, 1], factor])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_a_factor_with_levels_that_are_not_finite_is_named(bad):
    with pytest.raises(ValueError, match=r"factor 1 has 1 levels that are not finite \(first: level 2\)"):
        ActionProduct([[0, 1], [0.0, 1.0, bad]])


def test_a_factor_of_the_wrong_type_is_named():
    with pytest.raises(TypeError, match=r"factor 0 has levels of type .*: give real numbers"):
        ActionProduct([["left", "right"]])


@pytest.mark.parametrize("shape", [(), (3,), (4, 1)])
def test_digits_of_the_wrong_shape_are_an_error(shape):
    with pytest.raises(ValueError, match=r"digits have shape .*: give \(\.\.\., 2\), one per factor"):
        ActionProduct([[0, 1], [0, 1]], space="multidiscrete").embed(np.zeros(shape, int))


def test_levels_come_back_as_given_and_read_only():
    given_levels = [np.array([1.0, 2.0]), np.eye(2)]
    actions = ActionProduct(given_levels)
    for ours, theirs in zip(actions.levels, given_levels, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert not ours.flags.writeable
        assert theirs.flags.writeable


def test_only_sets_with_ids_of_63_bits_are_gone_through():
    assert ActionProduct([[0.0, 1.0]] * 20, space="multidiscrete").is_listable
    huge = ActionProduct([[0.0, 1.0]] * 100)
    assert not huge.is_listable
    with pytest.raises(TooManyActionsError, match=rf"(?s)ActionProduct\(n={2**100}, .* is too large to go through"):
        huge.blocks(10)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda files: {"product.json": files["product.json"]}, "does not fit: KeyError: 'levels.safetensors'"),
        (lambda files: {**files, "product.json": b"[]"}, "does not fit: TypeError"),
        (lambda files: {**files, "product.json": b'{"factors": 3, "space": "discrete"}'}, r"for levels of 2 factors"),
        (lambda files: {**files, "product.json": b'{"factors": 2, "space": "evil"}'}, "evil.* for levels of 2 factors"),
        (lambda files: {**files, "levels.safetensors": b""}, "does not fit: SafetensorError"),
    ],
)
def test_files_with_other_content_are_refused(change, match):
    files = ActionProduct([[0, 1], [0, 1, 2]]).to_files()
    assert ActionProduct.from_files(files).n == 6
    with pytest.raises(
        CheckpointError, match=f"product.json in the file does not fit.*{match.removeprefix('does not fit')}"
    ):
        ActionProduct.from_files(change(files))


def test_files_keep_the_form_of_scalar_and_vector_levels():
    levels = [np.array([1.0, 2.0]), np.eye(2), np.array([[3.0], [4.0], [5.0]])]
    loaded = ActionProduct.from_files(ActionProduct(levels, space="multidiscrete").to_files())
    assert loaded.space == spaces.MultiDiscrete([2, 2, 3])
    for ours, theirs in zip(loaded.levels, levels, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.shape == theirs.shape


def test_the_fingerprint_is_of_the_levels_not_of_the_space():
    actions = ActionProduct([[0, 1], [0, 1, 2]])
    assert actions.with_space("multidiscrete").sha256 == actions.sha256
    assert ActionProduct([[0, 1, 2], [0, 1]]).sha256 != actions.sha256
    assert ActionProduct([[0, 1], [0, 1, 3]]).sha256 != actions.sha256
