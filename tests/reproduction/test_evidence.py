import math

import numpy as np
import pytest

from reproduction.evidence import (
    FAILS,
    HOLDS,
    OPEN,
    Evidence,
    MissingError,
    cell,
    compare,
    judge,
    late,
    points,
    text,
    times,
)
from reproduction.results import Results
from reproduction.statistics import Estimate
from tests.reproduction.given import Given


def only(value):
    return value


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.5, 0.7, HOLDS),  # both bounds belong to it
        (math.nextafter(0.5, 0), 0.7, OPEN),
        (0.5, math.nextafter(0.7, 1), OPEN),
        (0.4, 0.8, OPEN),
        (0.4, math.nextafter(0.5, 0), FAILS),
        (0.4, 0.5, OPEN),
        (math.nextafter(0.7, 1), 0.8, FAILS),
        (0.7, 0.8, OPEN),
    ],
)
def test_an_interval_decides(low, high, expected):
    assert judge(Estimate(0.6, low, high, 3), least=0.5, most=0.7) == expected
    assert judge(Estimate(0.6, low, high, 2), least=0.5, most=0.7) == OPEN
    assert judge(Estimate(0.6, low, high, 2), least=0.5, most=0.7, seeds=2) == expected


def test_an_open_end_bounds_nothing():
    assert judge(Estimate(0.6, 0.5, 1e9, 3), least=0.5) == HOLDS
    assert judge(Estimate(0.6, -1e9, 0.5, 3), most=0.5) == HOLDS


def test_three_seeds_are_needed():
    assert compare([1.0, 1.0], of=only, unit=str, least=0.5).verdict == OPEN
    assert compare([1.0, 1.0, 1.0], of=only, unit=str, least=0.5).verdict == HOLDS
    assert compare([1.0, 1.0, 1.0], of=only, unit=str, most=0.5).verdict == FAILS


def test_a_comparison_keeps_its_note_and_says_its_interval():
    found = compare([0.1, 0.2, 0.3], of=only, unit=points, least=-9.0, most=9.0, note="why")
    assert (found.verdict, found.note, found.measured) == (HOLDS, "why", "+20.0 points [-4.8 points, +44.8 points]")
    assert text(Estimate(0.5, -np.inf, np.inf, 1), points) == "+50.0 points"


@pytest.mark.parametrize(("value", "expected"), [(1.0, HOLDS), (2.0, HOLDS), (0.999, FAILS), (2.001, FAILS)])
def test_a_cell_is_decided_by_its_value(value, expected):
    assert cell(value, str, 1.0, 2.0).verdict == expected
    assert cell(1.5, str, 1.0, 2.0, "why").note == "why"


def test_times_are_rounded_to_what_is_known():
    assert [times(value) for value in (1_234.5, 100.0, 99.6, 10.0, 9.96, 1.26)] == [
        *("1,234 times", "100 times", "100 times", "10 times", "10 times", "1.3 times")
    ]


def test_the_end_of_a_run_is_counted_in_its_seconds():
    curve = {"share": [0.9, 0.5, 0.4, 0.2], "seconds": [1, 79, 80, 100]}
    assert late(curve) == [0.4, 0.2]
    assert late(curve, 0.5) == [0.5, 0.4, 0.2]


def test_baselines_are_shares_of_the_best(tmp_path):
    evidence = Given(tmp_path, {"cart-pole/k-1": 0.5}, fixed=0.4)
    assert evidence.baseline("cart-pole/k-1", "best fixed item") == 0.4


def test_what_has_no_result_is_missing(tmp_path):
    with pytest.raises(MissingError, match="cart-pole/k-1"):
        Given(tmp_path).results("cart-pole/k-1")
    with pytest.raises(MissingError, match="cart-pole/k-1"):
        Given(tmp_path, {"cart-pole/k-1": 0.5}).studies("cart-pole/k-1")
    assert Evidence(Results(tmp_path), {}).asked == set()
