"""The README's claims, run again: minutes each (make test-slow)."""

import json

import pytest

from wolpertinger.experiments import make_config, train

COMPLETE_JOURNEY = {"data": "complete-journey", "median_best": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("env", "fixed", "least"), [({}, 0.40, 0.60), (COMPLETE_JOURNEY, 0.70, 0.85)])
def test_the_default_settings_reach_a_share_of_the_optimum(env, fixed, least, seed, tmp_path):
    folder = train(make_config("recommender", env=env, seed=seed), tmp_path / "run", quiet=True)
    result = json.loads((folder / "result.json").read_text())
    assert result["baselines"]["best fixed item"] < fixed * result["baselines"]["optimum"]
    assert result["last"]["share"] >= least
