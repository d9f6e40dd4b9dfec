"""rl_zoo3 as it is installed: train, enjoy, go on, search for settings."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.agent.envs import small_agent
from wolpertinger import Wolpertinger, zoo
from wolpertinger.runs.presets import TASKS

yaml = pytest.importorskip("yaml")
ALGOS = pytest.importorskip("rl_zoo3").ALGOS
ExperimentManager = pytest.importorskip("rl_zoo3.exp_manager").ExperimentManager

QUICK = ["-f", "logs", "--verbose", "0", "--device", "cpu"]
SHORT = ["-params", "learning_starts:50", "batch_size:16"]
LAKE = ["--env", "FrozenLake-v1"]


def newest(env, number=1):
    return f"logs/wolpertinger/{env}_{number}/{env}.zip"


def test_registration_makes_it_one_of_the_algorithms():
    zoo.register()
    assert ALGOS["wolpertinger"] is Wolpertinger


def test_train_enjoy_and_go_on():
    zoo.main(["train", *LAKE, "-n", "150", "--eval-freq", "60", "--save-freq", "60", *QUICK, *SHORT])
    assert Wolpertinger.load(newest("FrozenLake-v1")).num_timesteps == 150
    for which in ([], ["--load-best"], ["--load-last-checkpoint"]):
        zoo.main(["enjoy", *LAKE, "-n", "30", "--no-render", *which, *QUICK])
    zoo.main(["train", *LAKE, "-n", "50", "-i", newest("FrozenLake-v1"), *QUICK, *SHORT])
    assert Wolpertinger.load(newest("FrozenLake-v1", 2)).batch_size == 16


def test_the_zoos_own_settings():
    """Schedules by name, VecNormalize, several processes, network sizes, our own parts as JSON's terms."""
    ours = ["critic:'mlp'", "candidates:'nearest'", "k:2", "learner:dict(kind='ddpg',anchor=0.1)"]
    theirs = ["learning_rate:'lin_0.001'", "normalize:True", "n_envs:2", "policy_kwargs:dict(net_arch=[16])"]
    replay = ["--save-replay-buffer", "--vec-env", "subproc"]
    zoo.main(["train", "--env", "CartPole-v1", "-n", "200", *replay, *QUICK, *SHORT, *ours, *theirs])
    path = newest("CartPole-v1")
    loaded = Wolpertinger.load(path)
    assert [loaded.lr_schedule(at) for at in (1.0, 0.5, 0.0)] == pytest.approx([1e-3, 5e-4, 0])
    assert loaded.policy_kwargs["net_arch"] == [16]
    zoo.main(["enjoy", "--env", "CartPole-v1", "-n", "20", "--no-render", *QUICK])
    zoo.main(["train", "--env", "CartPole-v1", "-n", "60", "-i", path, *QUICK, *SHORT, *ours, *theirs])
    assert Wolpertinger.load(newest("CartPole-v1", 2)).num_timesteps == 60


def test_a_large_action_set_of_ours():
    small = ["--env-kwargs", "items:49", "dim:4"]
    zoo.main(["train", "--env", "wolpertinger/Recommender-v0", "-n", "150", *small, *QUICK, *SHORT])
    loaded = Wolpertinger.load(newest("wolpertinger-Recommender-v0"))
    assert (loaded.actions.n, loaded.actions.dim) == (49, 4)
    zoo.main(["enjoy", "--env", "wolpertinger/Recommender-v0", "-n", "20", "--no-render", *QUICK])


def test_the_search_for_settings_runs_trials():
    search = ["-optimize", "--n-trials", "3", "--n-startup-trials", "2", "--n-evaluations", "1", "--eval-episodes", "1"]
    where = ["--storage", "study.log", "--study-name", "lake", "--no-optim-plots", "--pruner", "none"]
    zoo.main(["train", *LAKE, "-n", "80", *search, *where, *QUICK, *SHORT])
    (report,) = Path("logs/wolpertinger").glob("report_*.pkl")
    study = pickle.loads(report.read_bytes())
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 3
    best = zoo.to_settings(study.best_trial.params)
    assert small_agent(**best).gamma == pytest.approx(study.best_trial.user_attrs["gamma"])
    zoo.main(["train", *LAKE, "-n", "60", *where[:4], "--trial-id", "2", *QUICK, "-params", "learning_starts:50"])
    loaded = Wolpertinger.load(newest("FrozenLake-v1", 2))  # the search has made a folder, too
    assert loaded.learning_rate == pytest.approx(study.trials[2].params["learning_rate"])


def test_the_shipped_settings_are_arguments_that_the_class_takes():
    for name, settings in yaml.safe_load(zoo.HYPERPARAMS.read_text()).items():
        own = ("n_timesteps", "n_envs", "policy", "env_kwargs")
        rest = {key: value for key, value in settings.items() if key not in own}
        ExperimentManager._preprocess_schedules(rest)
        agent = small_agent(**rest)
        assert settings["policy"] == "MlpPolicy", name
        assert np.isfinite(agent.lr_schedule(1.0))


@pytest.mark.parametrize("task", ["cart-pole", "puddle-world"])
def test_the_shipped_settings_are_those_of_the_command_line(task):
    preset = TASKS[task]
    shipped = yaml.safe_load(zoo.HYPERPARAMS.read_text())[preset.env_id]
    whose = {name: shipped.pop(name) for name in ("n_timesteps", "n_envs", "policy", "k", "env_kwargs")}
    assert shipped.pop("exploration") == {"kind": "exploration", **preset.agent["exploration"]}
    assert shipped == {name: value for name, value in preset.agent.items() if name != "exploration"}
    options = {name: option.default for name, option in preset.env.items() if option.default is not None}
    expected = (preset.steps, preset.n_envs, "MlpPolicy", preset.k, options)
    assert tuple(whose.values()) == expected
