import numpy as np

from reproduction import checks
from reproduction.evidence import FAILS, HOLDS, OPEN, compare


def test_steps_to_a_good_policy_are_those_from_which_it_stays():
    steps = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert checks._reached({"steps": steps, "share": [0.9, 0.1, 0.9, 0.9, 0.9, 0.1]}) == 3.0
    assert checks._reached({"steps": steps, "share": [0.9, 0.9, 0.1, 0.9, 0.9, 0.1]}) is None
    assert checks._reached({"steps": steps, "share": [0.1, 0.1, 0.1, 0.8, 0.8, 0.8]}) == 4.0  # up to the end
    assert checks._reached({"steps": steps, "share": [0.9, 0.9, 0.79, 0.9, 0.9, 0.79]}) is None


def test_one_that_fails_is_enough():
    assert checks.all_of([HOLDS, OPEN, FAILS]) == FAILS
    assert checks.all_of([HOLDS, OPEN]) == OPEN
    assert checks.all_of([HOLDS, HOLDS]) == HOLDS


def test_nothing_earned_is_no_ratio():
    assert np.isnan(checks.ratio(np.array(0.0), np.array(0.0)))
    assert compare([0.0] * 3, [0.0] * 3, of=checks.ratio, unit=str, most=0.5).verdict == OPEN


def test_the_best_score_of_the_empty_map_is_found_by_walking_it():
    assert checks.best_score(None).measured == f"{250 - (49 + 49 - 1)}"
