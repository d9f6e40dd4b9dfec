import json
from dataclasses import fields

import pytest

from tests.cli.tiny import TINY
from wolpertinger.cli import main, train
from wolpertinger.runs import RunConfig, make_config
from wolpertinger.runs.presets import TASKS


def test_train_keeps_what_was_asked_for(run_folder):
    config = json.loads((run_folder / "config.json").read_text())
    assert config["k"] == 0.1
    assert config["n_envs"] == 8
    assert config["env"]["items"] == 49
    assert config["agent"]["batch_size"] == 16
    assert config["agent"]["exploration"]["epsilon"] == 0.5


@pytest.fixture
def made(monkeypatch):
    """The configs that would have been trained."""
    configs = []

    def trainer(options):
        return lambda config, folder, **others: configs.append(config)

    monkeypatch.setattr(train, "trainer", trainer)
    return configs


@pytest.mark.parametrize("task", TASKS)
def test_without_options_a_task_is_as_its_preset(task, made):
    assert main(["train", task]) == 0
    assert made == [make_config(task)]


def test_every_setting_is_an_option_that_reaches_the_config(made):
    given = {"preset": "nearest", "k": 0.1, "recall": 0.9, "build_seconds": 2.5, "steps": 7, "seconds": 1.5, "seed": 3}
    options = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["train", "puddle-world", *options, "--table", "--envs", "2", "--plan", "3"]) == 0
    given |= {"table": True, "n_envs": 2}
    assert given.keys() == {field.name for field in fields(RunConfig) if "setting" in field.metadata}
    assert made == [make_config("puddle-world", env={"plan": 3}, **given)]


def test_help_gives_the_preset_its_own_defaults(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["train", "recommender", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for part in (
        "(default: 3,000,000, or the preset's)",
        "of the lookup",
        "(default: exact)",
        "--envs",
    ):
        assert part in shown


@pytest.mark.parametrize("change", ["tau", "=3"])
def test_a_change_is_a_name_and_a_value(change, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*TINY, "--set", change])
    assert "is not NAME=VALUE" in capsys.readouterr().err
