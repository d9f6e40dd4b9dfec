import json
from dataclasses import asdict, fields, replace

import pytest

from tests.runs.tiny import TINY, tiny
from wolpertinger.runs import RunConfig, make_config
from wolpertinger.runs.config import VERSION, read_config, write_config
from wolpertinger.runs.presets import PRESET_NAMES, TASKS


def test_changes_are_laid_over_the_presets():
    config = tiny(changes={"exploration": {"epsilon": 0.7}, "tau": 0.5})
    preset = TASKS["recommender"].nearest["agent"]
    assert config.agent["exploration"] == {**preset["exploration"], "epsilon": 0.7}
    assert config.agent["tau"] == 0.5
    assert config.agent["learning_rate"] == preset["learning_rate"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "cart-pole", "preset": "few-items"}, "is for the recommender, not for cart-pole"),
        ({"task": "chess"}, "task='chess': give one of 'recommender'"),
        ({"task": "recommender", "colour": 3}, "unknown settings: colour; there are task, env, agent, preset, k"),
        ({"task": "recommender", "env": {"colour": 3}}, "unknown options of recommender: colour; there are items, dim"),
        (
            {"task": "recommender", "preset": "best"},
            "give one of 'default', 'few-items', 'nearest', 'paper'",
        ),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_config(**arguments)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"steps": 0}, ValueError, "steps=0: give at least 1"),
        ({"n_envs": -1}, ValueError, "n_envs=-1: give at least 1"),
        ({"seconds": 0}, ValueError, "seconds=0: give more than 0"),
        ({"k": "ten"}, TypeError, "k='ten': give a number or a whole number"),
        ({"k": True}, TypeError, "k=True: give a number"),
        ({"steps": 10.5}, TypeError, r"steps=10\.5: give a whole number"),
        ({"table": 1}, TypeError, "table=1: give true or false"),
        ({"env": {"items": "many"}}, TypeError, "items='many': give a whole number"),
    ],
)
def test_values_of_another_type_or_out_of_range_are_named(settings, error, message):
    with pytest.raises(error, match=message):
        tiny(**settings)


def test_what_is_none_is_as_the_preset_has_it():
    assert make_config("recommender", k=None, steps=None, env={"items": None}) == make_config("recommender")


@pytest.mark.parametrize("asked", [{"recall": "fast"}, {"table": True}])
def test_where_the_critic_searches_there_is_no_lookup_to_set(asked):
    with pytest.raises(ValueError, match='nothing is looked up; leave it out, or use preset="nearest"'):
        make_config("recommender", **asked)


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_a_config_that_is_written_is_read_again(preset, tmp_path):
    for task in TASKS if preset != "few-items" else ["recommender"]:
        config = make_config(task, preset=preset, seconds=3)
        write_config(tmp_path, config)
        assert read_config(tmp_path) == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": None}, f"it is of version None, and only {VERSION} can be read"),
        ({"version": 99}, "it is of version 99"),
        ({"colour": 3}, "unknown settings: colour; there are task, env"),
        ({"k": "ten"}, "k='ten': give a number or a whole number"),
        ({"env": {**TINY, "colour": 3}}, "unknown options of recommender: colour"),
        ({"task": "chess"}, "task='chess': give one of 'recommender'"),
    ],
)
def test_a_file_that_does_not_fit_says_why(change, message, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"version": VERSION, **asdict(tiny()), **change}))
    with pytest.raises(ValueError, match=rf"config\.json cannot be read: {message}"):
        read_config(tmp_path)


def test_a_file_that_lacks_a_setting_or_is_no_config_says_so(tmp_path):
    settings = asdict(tiny())
    del settings["k"]
    (tmp_path / "config.json").write_text(json.dumps({"version": VERSION, **settings}))
    with pytest.raises(ValueError, match="cannot be read: missing settings: k"):
        read_config(tmp_path)
    for text in ("[]", "{", "3"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"config\.json cannot be read"):
            read_config(tmp_path)


def test_a_changed_copy_is_checked_too():
    with pytest.raises(ValueError, match="steps=0: give at least 1"):
        replace(tiny(), steps=0)


def test_every_setting_says_what_it_is():
    told = {field.name: field.metadata["setting"].help for field in fields(RunConfig) if "setting" in field.metadata}
    assert {field.name for field in fields(RunConfig)} - told.keys() == {"task", "env", "agent"}
    assert all(told.values())
