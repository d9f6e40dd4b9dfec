import json
from pathlib import Path

import pytest

from reproduction.departures import departures
from reproduction.plan import runs, variants
from wolpertinger.runs.config import make_config

RESULTS = Path(__file__).parents[2] / "results" / "runs"


def spec(agent, n_envs=1):
    return {"spec": {"n_envs": n_envs, "agent": agent}}


@pytest.mark.parametrize("task", ["cart-pole", "puddle-world", "recommender"])
def test_the_plain_preset_in_one_environment_is_the_papers(task):
    config = make_config(task, preset="paper", n_envs=1)
    assert departures(spec(config.agent)) == []
    assert departures(spec(config.agent, config.n_envs)) == [f"{config.n_envs} environments step together"] * (
        config.n_envs > 1
    )


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ({"n_steps": 5}, "returns of 5 steps"),
        ({"train_freq": 2}, "1 updates after every 2 steps"),
        ({"gradient_steps": 3}, "3 updates after every 1 steps"),
        ({"standardize": True}, "standardized observations and values"),
        ({"learner": {"kind": "td3"}}, "learner td3"),
        ({"candidates": {"kind": "critic"}}, "candidates by critic"),
        ({"learner": {"gradient_at": "action"}}, 'gradient_at="action"'),
        ({"learner": {"anchor": 0.1}}, "an anchor of 0.1 to the picked action"),
        ({"learner": {"critic_loss": "huber"}}, "critic_loss=huber"),
        ({"learner": {"target_samples": 9}}, "targets from 9 sampled actions"),
        ({"final_learning_rate": 0.1}, "a learning rate that falls"),
        ({"policy_kwargs": {"bound": "inverted gradients"}}, "inverted gradients"),
        ({"policy_kwargs": {"layer_norm": True}}, "layer norm"),
        ({"policy_kwargs": {"dropout": 0.1}}, "dropout of 0.1"),
        ({"policy_kwargs": {"n_critics": 2}}, "2 critics"),
        ({"critic": {"kind": "two-tower"}}, "a two-tower critic"),
        ({"critic": {"interaction": True}}, "products of state and action in the critic"),
        ({"exploration": {"ladder": True}}, "another noise in each environment"),
        ({"exploration": {"final_sigma": 0.1}}, "noise that falls"),
        ({"exploration": {"epsilon": 0.3, "guided": 0.8}}, "80% of random actions from the likely subset"),
    ],
)
def test_a_setting_of_our_own_is_named(agent, said):
    assert departures(spec(agent)) == [said]


def test_hyper_parameters_that_the_paper_leaves_open_are_none():
    agent = {"learning_rate": 9.0, "batch_size": 7, "gamma": 0.5, "tau": 0.1, "policy_kwargs": {"net_arch": [9]}}
    assert departures(spec(agent)) == []


def test_no_committed_learning_run_is_the_papers():
    files = [
        path for run in runs(variants()) if run.variant.kind == "learning" for path in [RESULTS / f"{run.name}.json"]
    ]
    assert all(departures(json.loads(path.read_text())) for path in files)
