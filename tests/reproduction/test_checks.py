"""The claims' tests on results whose verdict is known."""

import numpy as np
import pytest

from reproduction import checks
from reproduction.claims import CLAIMS, OURS
from reproduction.evidence import FAILS, HOLDS, OPEN, Evidence, compare, judge, late
from reproduction.plan import SPEED_TABLES, speed_key, variants
from reproduction.results import Results
from reproduction.statistics import Estimate

CLAIM = {claim.name: claim for claim in CLAIMS + OURS}


class Given(Evidence):
    """Shares of variants, and speeds of cells, as given."""

    def __init__(self, tmp_path, shares=(), rates=()):
        super().__init__(Results(tmp_path), {})
        self._found = {key: [] for key in variants()}
        self._seeds = dict.fromkeys(variants(), 3)
        baselines = {"optimum": 10.0, "best fixed item": 4.0, "random": 1.0}
        for key, values in dict(shares).items():
            self._found[key] = [
                {"curve": {"share": [0.9, share], "seconds": [1.0, 60.0]}, "steps": 100, "baselines": baselines}
                for share in values
            ]
        for key, rate in dict(rates).items():
            self._found[key] = [{"steps_per_second": rate, "time": {"rerank": 9.5, "lookup": 0.5}}]
            self._seeds[key] = 1


def verdict(name, evidence):
    return CLAIM[name].find(evidence).verdict


@pytest.mark.parametrize(
    ("low", "high", "seeds", "expected"),
    [(0.6, 0.7, 3, HOLDS), (0.4, 0.45, 3, FAILS), (0.4, 0.7, 3, OPEN), (0.6, 0.7, 2, OPEN)],
)
def test_an_interval_decides(low, high, seeds, expected):
    assert judge(Estimate((low + high) / 2, low, high, seeds), least=0.5) == expected


def test_three_seeds_are_needed():
    assert compare([1.0, 1.0], of=lambda only: only, unit=str, least=0.5).verdict == OPEN
    assert compare([1.0, 1.0, 1.0], of=lambda only: only, unit=str, least=0.5).verdict == HOLDS


@pytest.mark.parametrize(
    ("share", "expected"), [(0.12, HOLDS), (0.5, FAILS)]
)  # random 10 %, best fixed item 40 %: the middle is 25 %
def test_failing_to_learn_is_to_stay_near_random(share, expected, tmp_path):
    evidence = Given(tmp_path, {"recommender-13138/k-1": [share, share + 0.01, share - 0.01]})
    assert verdict("k = 1 fails on 13k", evidence) == expected


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.4, 0.5], HOLDS),
        ([0.1, 0.2, 0.3, 0.2, 0.5], FAILS),
    ],
)
def test_a_progression_is_a_gain_at_every_step(shares, expected, tmp_path):
    names = ("1", "1-percent", "5-percent", "10-percent", "100-percent")
    given = {f"recommender-835/k-{name}": [s, s + 0.01, s - 0.01] for name, s in zip(names, shares, strict=True)}
    assert verdict("progression with k", Given(tmp_path, given)) == expected


def speeds(seconds):
    """Steps per second of the recommender's exact column for seconds(k)."""
    return {speed_key("recommender", k, "exact"): 1 / seconds(k) for k in SPEED_TABLES["recommender"].ks}


@pytest.mark.parametrize(("exponent", "expected"), [(1.0, HOLDS), (1.5, FAILS), (0.5, FAILS)])
def test_linear_growth_is_told_from_others(exponent, expected, tmp_path):
    evidence = Given(tmp_path, rates=speeds(lambda k: 0.01 + 1e-5 * (k - 1) ** exponent))
    assert verdict("linear in k", evidence) == expected


def test_speeds_are_compared_the_right_way_round(tmp_path):
    evidence = Given(tmp_path, rates=speeds(lambda k: k / 13_138))
    found = CLAIM["an order of magnitude"].find(evidence)
    assert found.measured == "20 times and 10 times"
    assert found.verdict == HOLDS
    assert CLAIM["15 times slower"].find(evidence).measured == "100 times"
    assert verdict("15 times slower", evidence) == FAILS


def test_a_gain_is_what_the_first_has_over_the_second(tmp_path):
    shares = {"recommender-13138/k-5-percent": [0.65, 0.66, 0.67], "recommender-13138/k-1": [0.4, 0.41, 0.42]}
    found = CLAIM["5 % beats k = 1 on 13k"].find(Given(tmp_path, shares))
    assert found.verdict == HOLDS
    assert found.measured.startswith("+25.0 points")
    assert verdict("13k above 60 %", Given(tmp_path, shares)) == HOLDS
    assert verdict("13k above a fixed item", Given(tmp_path, shares)) == HOLDS


def test_a_missing_seed_leaves_everything_open(tmp_path):
    shares = {"recommender-13138/k-5-percent": [0.6, 0.61], "recommender-13138/k-1": [0.4, 0.41, 0.42]}
    found = CLAIM["5 % beats k = 1 on 13k"].find(Given(tmp_path, shares))
    assert found.verdict == OPEN
    assert found.note == "seeds missing: 1 of recommender-13138/k-5-percent"


def test_shares_are_those_of_the_end_of_a_run_not_its_best():
    curve = {"share": [0.9, 0.5, 0.4, 0.2], "seconds": [1, 79, 81, 100]}
    assert late(curve) == [0.4, 0.2]
    assert late(curve, 0.5) == [0.5, 0.4, 0.2]


def test_steps_to_a_good_policy_are_those_from_which_it_stays():
    steps = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert checks._reached({"steps": steps, "share": [0.9, 0.1, 0.9, 0.9, 0.9, 0.1]}) == 3.0
    assert checks._reached({"steps": steps, "share": [0.9, 0.9, 0.1, 0.9, 0.9, 0.1]}) is None


def test_one_that_fails_is_enough():
    assert checks.all_of([HOLDS, OPEN, FAILS]) == FAILS
    assert checks.all_of([HOLDS, OPEN]) == OPEN
    assert checks.all_of([HOLDS, HOLDS]) == HOLDS


def test_nothing_earned_is_no_ratio():
    assert np.isnan(checks.ratio(np.array(0.0), np.array(0.0)))
    assert compare([0.0] * 3, [0.0] * 3, of=checks.ratio, unit=str, most=0.5).verdict == OPEN


def test_the_best_score_of_the_empty_map_is_found_by_walking_it():
    assert checks.best_score(None).measured == f"{250 - (49 + 49 - 1)}"
