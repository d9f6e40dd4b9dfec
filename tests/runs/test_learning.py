"""The README's claims, run again: minutes each (make test-slow)."""

import json

import pytest

from wolpertinger.runs import evaluate, make_config, train

COMPLETE_JOURNEY = {"data": "complete-journey", "median_best": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("env", "fixed", "least"), [({}, 0.40, 0.80), (COMPLETE_JOURNEY, 0.70, 0.88)])
def test_the_default_settings_reach_a_share_of_the_optimum(env, fixed, least, seed, tmp_path):
    folder = train(make_config("recommender", env=env, seed=seed), tmp_path / "run", quiet=True)
    result = json.loads((folder / "result.json").read_text())
    assert result["baselines"]["best fixed item"] < fixed * result["baselines"]["optimum"]
    assert result["last"]["share"] >= least


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("task", "least"), [("cart-pole", 0.80), ("puddle-world", 0.95)])
def test_a_million_actions_are_learnt_with_one_candidate(task, least, seed, tmp_path):
    folder = train(make_config(task, seed=seed), tmp_path / "run", quiet=True)
    found = evaluate(folder)
    assert found.config.k == 1
    assert found.score.share >= least
    assert found.score.share > found.baselines["random"] / found.score.best


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_pendulum_is_held_by_a_thousand_torques(seed, tmp_path):
    folder = train(make_config("control", seed=seed), tmp_path / "run", quiet=True)
    assert evaluate(folder).score.value > -250  # random torques: -1,185


def test_plans_across_a_small_map_are_learnt(tmp_path):
    env = {"plan": 5, "size": 10, "map_seed": 2}
    config = make_config("puddle-world", env=env, steps=4_000, changes={"learning_starts": 200})
    folder = train(config, tmp_path / "run", quiet=True)
    found = evaluate(folder)
    assert found.baselines["best fixed plan"] < 0.99 * found.score.best
    assert found.score.share >= 0.99
