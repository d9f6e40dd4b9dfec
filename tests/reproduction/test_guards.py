import pytest

from reproduction.evidence import FAILS, HOLDS, OPEN, Finding
from reproduction.guards import equal_work, good, learned, only_if, recalled
from tests.reproduction.given import SEEDS, Given

KEY, OTHER = "cart-pole/k-1", "cart-pole/k-5000"


def distinct(*counts):
    """One run that took so many different actions, in its last two evaluations."""
    return {"curve": {"share": [0.5, 0.5, 0.5], "seconds": [1.0, 80.0, 100.0], "distinct": [9, *counts]}}


def test_a_run_that_gives_one_action_to_all_has_not_learned(tmp_path):
    given = Given(tmp_path, {KEY: [0.5] * 3}, results={KEY: [distinct(1, 1), distinct(2, 1), distinct(1, 2)]})
    assert learned(KEY)(given) == f"{KEY}: 1 of 3 runs ended with one action for every state"
    given = Given(tmp_path, {KEY: [0.5] * 3}, results={KEY: [distinct(2, 1)] * 3})
    assert learned(KEY)(given) == ""


def test_learning_is_to_be_surely_at_the_best_fixed_item_or_above(tmp_path):
    assert learned(KEY)(Given(tmp_path, {KEY: 0.5}, fixed=0.5)) == ""
    assert learned(KEY)(Given(tmp_path, {KEY: 0.5}, fixed=0.51)) == (
        f"{KEY} did not learn: 50.0 %, not surely above the best fixed item, 51.0 %"
    )
    assert "did not learn" in learned(KEY)(Given(tmp_path, {KEY: [0.4, 0.5, 0.6]}, fixed=0.45))


def test_good_is_surely_good(tmp_path):
    assert good(KEY, 0.8)(Given(tmp_path, {KEY: 0.8})) == ""
    assert good(KEY, 0.8)(Given(tmp_path, {KEY: [0.7, 0.8, 0.9]})) == f"{KEY} did not surely reach 80.0 %"


@pytest.mark.parametrize(("own", "enough"), [([50, 90], True), ([49, 90], False), ([500, 500], True)])
def test_half_of_the_most_updates_of_another_is_equal_enough(own, enough, tmp_path):
    steps = {KEY: own, OTHER: [60, 100]}
    given = Given(
        tmp_path, {key: [0.5, 0.5] for key in steps}, results={k: [{"steps": s} for s in v] for k, v in steps.items()}
    )
    said = "" if enough else f"{KEY} made 49 to 90 updates, others up to 100"
    assert equal_work(KEY, OTHER)(given) == said


def test_updates_follow_the_warm_up_once_for_all_environments(tmp_path):
    agent = {"learning_starts": 200, "train_freq": 2, "gradient_steps": 3}
    results = [
        {"steps": 1_000, "spec": {"n_envs": 4, "agent": agent}},
        {"steps": 9_000, "spec": {"n_envs": 1, "agent": {}}},
    ]
    assert Given(tmp_path, {KEY: [0.5] * 2}, results={KEY: results}).updates(KEY) == [300.0, 8_000.0]


@pytest.mark.parametrize(("measured", "well"), [(0.719, True), (0.681, True), (0.721, False), (0.679, False)])
def test_a_recall_may_be_two_points_off(measured, well, tmp_path):
    lookups = [{"lookup": [{"promise": 0.7, "recall": recall}]} for recall in (0.7, measured)]
    given = Given(tmp_path, {KEY: [0.5, 0.5]}, results={KEY: lookups})
    said = "" if well else f"{KEY}: the recall measured is 0.7, {measured:.3g}, not 0.7"
    assert recalled(KEY)(given) == said


def test_a_recall_that_was_not_recorded_is_none(tmp_path):
    assert recalled(KEY)(Given(tmp_path, {KEY: 0.5})) == f"{KEY}: no recall was recorded"


def test_guards_only_take_decisions_away(tmp_path):
    for verdict in (HOLDS, FAILS, OPEN):
        test = only_if(
            lambda _, verdict=verdict: Finding("x", verdict, "old"), lambda _: "first", lambda _: "", lambda _: "second"
        )
        assert test(None) == Finding("x", OPEN, "first; second; old")
        assert only_if(lambda _, verdict=verdict: Finding("x", verdict), lambda _: "")(None) == Finding("x", verdict)
    assert only_if(lambda _: Finding("x", FAILS), lambda _: "why", verdicts=(HOLDS,))(None) == Finding("x", FAILS)


def test_eight_seeds_meet_a_boundary(tmp_path):
    assert len(Given(tmp_path, {KEY: 0.1}).results(KEY)) == SEEDS
