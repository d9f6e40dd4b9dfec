"""The nearest level, found by where it should be, is the one that a search finds."""

import numpy as np
import pytest

from wolpertinger.actions.factor import MANY, Factor

LEVELS = np.linspace(-3, 7, MANY)
FAR = np.finfo(np.float64).max
SETS = {
    "even": (LEVELS, True),
    "a little off": (LEVELS + np.sin(np.arange(MANY)) / 1_500, False),
    "of float32": (LEVELS.astype(np.float32).astype(np.float64), True),
    "few": (LEVELS[1:], False),
    "uneven": (np.sinh(LEVELS), False),
    "downwards": (LEVELS[::-1], False),
    "twice each": (np.repeat(LEVELS[::2], 2), False),
    "too far apart": (np.linspace(-1, 1, MANY) * FAR, False),
    "too close": (np.arange(MANY) * 5e-324, False),
}


@pytest.mark.parametrize("name", SETS)
def test_only_many_evenly_spaced_levels_need_no_search(name):
    levels, are_even = SETS[name]
    assert (Factor(levels[:, None])._per_unit is not None) == are_even


@pytest.mark.parametrize("name", [name for name, (_, are_even) in SETS.items() if are_even])
def test_without_a_search_the_same_level_is_found(name):
    levels, rng = SETS[name][0], np.random.default_rng(0)
    at, between, beyond = levels[::7], (levels[:-1] + levels[1:])[::7] / 2, [-1e30, levels[0] - 1, levels[-1] + 1, 1e30]
    by_place, by_search = Factor(levels[:, None]), Factor(levels[:, None])
    by_search._per_unit = None
    for queries in (at, between, rng.uniform(levels[0], levels[-1], 500), np.append(at, beyond)):
        found = by_place.nearest_one(queries[:, None])
        np.testing.assert_array_equal(found, by_search.nearest_one(queries[:, None]))
        is_near = np.abs(queries) < 10
        distances = (queries[is_near, None] - levels) ** 2
        np.testing.assert_array_equal(found[is_near], distances.argmin(axis=1))
    assert by_place._even_below(at) is not None
    assert by_place._even_below(np.append(at, beyond)) is None  # nobody knows: a search finds them
