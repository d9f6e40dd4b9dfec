"""Advice on k: the rule, the cost, the check and the whole of it on tiny runs."""

import json
import shutil
from dataclasses import asdict

import gymnasium as gym
import numpy as np
import pytest

from wolpertinger import Wolpertinger, discretize
from wolpertinger.runs import make_config, train
from wolpertinger.runs.advise import (
    MOST,
    Row,
    advise,
    candidates_to_study,
    check,
    margin_of,
    recommend,
    score_at,
    training_times,
)
from wolpertinger.runs.advise_cost import Cost, measure_cost, updates_per_step
from wolpertinger.runs.advise_report import plot_advice, read_advice, sentences
from wolpertinger.runs.scores import Score

TINY = {"learning_starts": 64, "batch_size": 16, "policy_kwargs": {"net_arch": [16, 16]}}
LINE = Cost(timed={1: 1.0, 10: 2.0, 100: 11.0}, apart=[1], base=1.0, slope=0.1)


def rows(predicted, *, seconds=None, scores=None, measured=None):
    ks = [1, 2, 5, 10, 20][: len(predicted)]
    seconds, scores, measured = (given or [1.0] * len(ks) for given in (seconds, scores, measured))
    return [Row(*row, None, None) for row in zip(ks, predicted, measured, seconds, seconds, scores, strict=True)]


@pytest.mark.parametrize(
    ("values", "seconds", "advised"),
    [
        ([0.0, 5.0, 9.6, 9.9, 10.0], None, 5),  # the smallest within the margin of the last
        ([0.0, 5.0, 9.4, 9.5, 10.0], None, 10),
        ([0.0, 5.0, 9.4, 9.9, 10.0], [1.0, 2.0, 3.9, 4.1, 9.0], 5),  # larger ones take too long
        ([0.0, 0.0, 0.0], None, 1),  # nothing to gain
    ],
)
def test_the_rule(values, seconds, advised):
    assert recommend(rows(values, seconds=seconds), values, 0.05 * values[-1]) == advised


def test_a_gain_that_is_too_small_for_the_value_is_not_worth_any_candidate():
    assert margin_of([100.0, 110.0, 120.0]) == pytest.approx(1.0)
    assert margin_of([-100.0, -99.5, -99.1]) == pytest.approx(0.9)
    assert recommend(rows(values := [1.0, 1.003, 1.004]), values, margin_of(values)) == 1


def test_the_line_gives_what_was_not_timed_and_its_exceptions_what_was():
    assert LINE.seconds(1) == 1.0
    assert LINE.seconds(10) == 2.0
    assert LINE.seconds(1_000) == pytest.approx(101)


def test_the_runs_own_k_is_as_fast_as_it_was():
    time = {"lookup": 1.0, "rerank": 9.0, "update": 20.0}
    result = {"steps": 1_000, "warm_up_steps": 200, "steps_per_second": 20.0, "time": time}
    times = training_times(result, LINE, [1, 10, 100], own=10, n_envs=8)  # 0.4 s a step, 0.1 s of it choosing
    assert [time.seconds for time in times] == pytest.approx([0.35, 0.4, 0.3 + 0.1 * 11 / 2])
    assert times[1].steps_per_second == pytest.approx(20.0)


def test_without_a_result_only_the_choices_are_known():
    for result in ({}, {"steps": 8, "warm_up_steps": 8, "steps_per_second": 0.0, "time": {}}):  # no run, or no update
        times = training_times(result, LINE, [1, 100], own=1, n_envs=8)
        assert [(time.seconds, time.steps_per_second) for time in times] == [(1.0, None), (11.0, None)]


def test_the_check_counts_from_random_actions():
    found = check(5, rows([1.0, 2.0, 3.0, 4.0], scores=[20.0, 30.0, 28.0, 25.0]), random=10.0)
    assert (found.k, found.score, found.best_k, found.best_score) == (5, 28.0, 2, 30.0)
    assert found.share == pytest.approx(0.9)
    assert not found.holds
    assert (found.holding, found.tried) == (1, 4)
    assert found.rank_correlation == pytest.approx(0.2)


def test_a_check_of_what_was_measured_only():
    found = check(10, rows([1.0, 2.0, 3.0, 4.0], scores=[20.0, 20.0, None, None]), random=30.0)
    assert found.k == 2
    assert found.share is found.holds is found.rank_correlation is None
    assert (found.holding, found.tried) == (0, 2)


def test_what_is_looked_at_in_sets_of_any_size():
    assert candidates_to_study(835, 41, 256) == (835, [41, 41, 83], [])
    most, extra, notes = candidates_to_study(13_138, 656, 256)
    assert (most, extra) == (MOST, [656, 656, 1313])
    assert notes == ["Of 13,138 actions, the 2,048 nearest to each proto-action were looked at; beyond them: nothing."]
    assert candidates_to_study(13_138, 13_138, 256)[0] == 13_138  # as the run did
    most, extra, notes = candidates_to_study(2**100, 5, 256)
    assert (most, extra) == (MOST, [5])
    assert "beyond them: 5% of A, 10% of A" in notes[0]
    assert "the run's own k = 1,048,576" in candidates_to_study(2**20, 2**20, 256)[2][0]
    assert candidates_to_study(2, 1, 256) == (2, [1, 1, 1], [])


class SlowScorer:
    """Scores k itself, in no time."""

    def score(self, agent):
        return Score(agent.k, 1)


def test_a_score_that_would_take_too_long_is_left_out(agent, monkeypatch):
    monkeypatch.setattr("wolpertinger.runs.advise.SCORE_SECONDS", 15.0)
    seconds = iter([0.0, 1.0, 1.0, 5.0])  # of the clock: one second at k = 1, then four at k = 10
    monkeypatch.setattr("wolpertinger.runs.advise.perf_counter", lambda: next(seconds))
    notes = []
    scores = score_at(agent, SlowScorer(), [1, 10, 100], LINE, notes)
    assert {k: score.value for k, score in scores.items()} == {1: 1, 10: 10}
    assert notes == ["Returns from k = 100 on were not measured: more than 15 seconds each."]
    assert agent.k == 3


@pytest.fixture(scope="module")
def agent():
    env = discretize(gym.make("Pendulum-v1"), 301)
    return Wolpertinger("MlpPolicy", env, k=3, seed=0, batch_size=8, policy_kwargs={"net_arch": [8]})


def test_a_cost_is_measured_at_a_few_k_and_leaves_the_agent_alone(agent):
    observations = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
    cost = measure_cost(agent, observations, [1, 2, 5, 10, 20, 50, 100, 301], n_envs=4)
    assert len(cost.timed) == 5
    assert cost.apart == [1, 301]
    assert all(cost.seconds(k) > 0 for k in (1, 2, 50, 301))
    assert agent.k == 3
    few = measure_cost(agent, observations, [1, 2], n_envs=4)
    assert few.apart == [1, 2]


def test_updates_follow_the_agents_settings(agent, monkeypatch):
    assert updates_per_step(agent, 16) == 1
    monkeypatch.setattr(agent, "gradient_steps", -1)
    assert updates_per_step(agent, 16) == 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    options = {"env": {"items": 49, "dim": 4}, "n_envs": 8, "steps": 200, "changes": TINY, "preset": "nearest"}
    return train(make_config("recommender", **options), tmp_path_factory.mktemp("runs") / "tiny", quiet=True)


@pytest.fixture(scope="module")
def heard():
    return []


@pytest.fixture(scope="module")
def found(folder, heard):
    return advise(folder, states=20, say=heard.append)


def test_advice_on_a_run_holds_together(folder, found, heard):
    assert [row.k for row in found.rows] == [1, 2, 4, 5, 10, 20, 49]
    assert found.trained_k == 2
    assert found.k in [row.k for row in found.rows]
    own = next(row for row in found.rows if row.k == 2)
    result = json.loads((folder / "result.json").read_text())
    assert own.score == pytest.approx(result["best"]["return"])
    assert own.steps_per_second == pytest.approx(result["steps_per_second"])
    assert found.check.best_score == max(row.score for row in found.rows)
    assert heard[-1] == "return at k = 49"
    assert read_advice(folder) == json.loads(json.dumps(asdict(found)))


def test_the_plot_needs_the_file_only(folder, found, tmp_path):
    shutil.copy(folder / "advise.json", tmp_path)
    assert plot_advice(tmp_path).read_bytes().startswith(b"\x89PNG")


def test_a_run_with_advice_can_be_replaced(folder, found, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "run")
    plot_advice(copy)
    with pytest.raises(FileExistsError, match="holds a run already"):  # not: holds what is not of a run
        train(make_config("recommender"), copy)


def test_an_interrupted_run_gets_advice_without_speeds_or_returns(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "run")
    (copy / "result.json").unlink()
    found = advise(copy, states=5, checkpoint="last", measure=False)
    assert found.check is None
    assert {row.steps_per_second for row in found.rows} == {row.score for row in found.rows} == {None}
    text = " ".join(sentences(asdict(found)))
    assert "choosing takes" in text
    assert "nothing checks the advice" in text
    assert "no result.json" in text
    plot_advice(copy)


def test_a_set_that_nobody_can_list(tmp_path, monkeypatch):
    monkeypatch.setattr("wolpertinger.runs.advise.MOST", 100)
    settings = {**TINY, "learning_starts": 8}
    config = make_config("puddle-world", env={"plan": 40, "size": 6}, n_envs=2, steps=20, changes=settings)
    found = advise(train(config, tmp_path / "plans", quiet=True), states=4, measure=False)
    assert found.actions == 2**40
    assert found.rows[-1].k == 100
    assert "Of 1,099,511,627,776 actions, the 100 nearest" in found.notes[0]


def test_an_agent_that_searches_for_itself_is_told_so(tmp_path):
    config = make_config("recommender", env={"items": 49, "dim": 4}, n_envs=8, steps=40, changes=TINY)
    with pytest.raises(ValueError, match='candidates="critic"; train one with --preset nearest'):
        advise(train(config, tmp_path / "run", quiet=True))


SENTENCES = [
    ({"critic_k": 1}, "the trained actor points at good actions already"),
    ({"critic_k": 5}, "gives k = 5, too"),
    ({"critic_k": 20}, "it values some far actions highly"),
    ({"k": 2, "critic_k": 2}, "by Lemma 1 50% of the gain lies beyond it"),
    ({"k": 1, "margin": 10.0}, "by Lemma 1 all candidates together gain 10, less than 1% of the value"),
    (
        {"check": {"holds": True, "rank_correlation": 0.9}},
        "the advice holds. It would for 3 of the 5 k measured. The return rises",
    ),
    ({"check": {"holds": False, "rank_correlation": -0.9}}, "measured. The return falls"),
    ({"check": {"holds": True, "rank_correlation": 0.1}}, "neither rises nor falls clearly"),
    ({"check": {"holds": True, "rank_correlation": None}}, "the same at every k"),
    ({"check": {"share": None, "rank_correlation": None}}, "at no k is it better than random actions"),
]


@pytest.mark.parametrize(("changes", "expected"), SENTENCES)
def test_the_sentences_say_what_was_found(changes, expected):
    found = {
        "k": 5,
        "score": 1.0,
        "best_k": 1,
        "best_score": 1.0,
        "share": 1.0,
        "holds": True,
        "holding": 3,
        "tried": 5,
    }
    chosen = [asdict(row) for row in rows([0.0, 5.0, 9.6, 9.9, 10.0])]
    advice = {"k": 5, "critic_k": 5, "margin": 0.5, "rows": chosen, "notes": [], **changes}
    advice["check"] = {**found, "rank_correlation": 1.0, **changes.get("check", {})}
    assert expected in " ".join(sentences(advice))
