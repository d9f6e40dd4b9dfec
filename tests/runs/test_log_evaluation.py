"""Policies of a problem whose values are known: one step, a point, the reward minus the distance to it."""

import numpy as np
import pytest
import torch

from tests.agent.test_logged import QUICK, SET, target_log
from wolpertinger import ActionIds, LogError, Transitions, Wolpertinger
from wolpertinger.runs.log_evaluation import cluster_chances, evaluate_on_log

ALL = ("logged", "fitted Q", "importance sampling", "self-normalised", "doubly robust", "doubly robust, clusters")


@pytest.fixture(scope="module")
def agent():
    return Wolpertinger.from_log(target_log(), SET, **{**QUICK, "updates": 150, "batch_size": 64})


def exact(agent):
    obs = np.linspace(-1, 1, 1_001, dtype=np.float32)[:, None]
    return float(-np.abs(obs - SET.embed(agent.predict(obs)[0])).mean())


def test_estimates_are_near_the_exact_value(agent):
    log = target_log(rows=6_000, seed=1, propensities=np.full(6_000, 1 / 9))
    found = evaluate_on_log(agent, log, updates=1_000, clusters=8)
    assert tuple(each.name for each in found.estimates) == ALL
    value = exact(agent)
    logged, *ours = found.estimates
    assert logged.value == pytest.approx(float(np.mean(log["reward"])), abs=1e-4)
    assert logged.value < value - 0.2
    for each in ours:
        assert abs(each.value - value) < 0.1, each.name
    assert found.agreement == pytest.approx(1 / 9, abs=0.02)
    assert not found.warnings


def test_without_propensities_and_vectors_there_is_a_model_and_a_warning():
    log = target_log(rows=600)
    agent = Wolpertinger.from_log(log, ActionIds(9), **QUICK)
    found = evaluate_on_log(agent, log, updates=5, gamma=0.5)
    assert [each.name for each in found.estimates] == ["logged", "fitted Q"]
    assert found.gamma == 0.5
    assert "fitted Q is all there is" in found.warnings[0]


def test_too_few_episodes_that_count_are_a_warning(agent):
    log = target_log(rows=60, propensities=np.full(60, 1 / 9))
    told = evaluate_on_log(agent, log, updates=5).warnings
    assert any(text.startswith("importance sampling: only") for text in told)


def test_the_same_seed_estimates_the_same(agent):
    log = target_log(rows=200, propensities=np.full(200, 1 / 9))
    assert evaluate_on_log(agent, log, updates=5) == evaluate_on_log(agent, log, updates=5)


def test_only_so_many_rows_are_looked_at(agent, monkeypatch):
    monkeypatch.setattr("wolpertinger.runs.log_evaluation.MOST_ROWS", 50)
    assert evaluate_on_log(agent, target_log(rows=200), updates=5).rows == 50


def test_chances_of_clusters_are_learned():
    torch.manual_seed(0)
    states = torch.randint(2, (4_000, 1)).float()
    clusters = (torch.rand(4_000) < 0.2 + 0.6 * states[:, 0]).long()
    found = cluster_chances(states, clusters, 2, seed=0)
    expected = torch.where(clusters == states[:, 0], 0.8, 0.2)
    assert np.abs(found - expected.numpy()).max() < 0.08


@pytest.mark.parametrize(
    ("change", "error"),
    [({"gamma": 2}, "gamma=2"), ({"updates": 0}, "updates=0"), ({"clusters": 1}, "clusters=1"), ({"log": 3}, "log=3")],
)
def test_bad_arguments_are_refused(agent, change, error):
    with pytest.raises((ValueError, TypeError), match=error):
        evaluate_on_log(**{"agent": agent, "log": target_log(rows=20), **change})


def test_a_log_without_differences_is_refused(agent):
    log = Transitions(np.zeros((4, 1)), [0, 1, 2, 3], np.zeros(4), np.ones(4))
    with pytest.raises(LogError, match="every return of the log is 0: there is nothing to evaluate by"):
        evaluate_on_log(agent, log, updates=2)
