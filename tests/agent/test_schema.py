import json

import pytest
import torch

from wolpertinger import archive
from wolpertinger.agent import checkpoint, encoding, schema

from .envs import small_agent


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "agent.zip"
    small_agent().save(path)
    return json.loads(archive.read(path, checkpoint.KIND)["config.json"])


def decoded(config):
    return {name: encoding.decode_value(value) for name, value in config["settings"].items()}


def test_what_an_agent_saves_is_taken(config):
    assert schema.check_config(config) is config
    settings = schema.check_settings(decoded(config), config["unsaved_settings"])
    assert settings.keys() == schema.SETTINGS.keys()


@pytest.mark.parametrize("name", schema.FIELDS)
def test_every_field_is_needed_and_of_a_kind(config, name):
    with pytest.raises(ValueError, match=f"{name} missing or unknown"):
        schema.check_config({other: value for other, value in config.items() if other != name})
    with pytest.raises((ValueError, TypeError), match=name):
        schema.check_config({**config, name: 1.5})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"evil": 1}, "evil missing or unknown"),
        ({"gamma": 2}, "gamma=2"),
        ({"policy_kwargs": {"net_arch": [2**40]}}, "at most"),
        ({"policy_kwargs": {"net_arch": [8] * 100}}, "100 layers: 64 at most"),
        ({"policy_kwargs": {"n_critics": 10**9}}, "n_critics=1000000000: 64 at most"),
        ({"policy_kwargs": {"activation_fn": torch.optim.Adam}}, "a subclass of Module is needed"),
        ({"policy_kwargs": {"own": float("nan")}}, "own=nan"),
        ({"replay_buffer_kwargs": {"n_steps": 10**9}}, "n_steps=1000000000: 10000 at most"),
        ({"allowed": "os.system"}, "functions are not in files"),
        ({"train_freq": [0, "step"]}, "train_freq=0"),
        ({"k": 10**9}, "k=1000000000"),
        ({"critic": "mlp"}, "dict is needed"),
    ],
)
def test_settings_out_of_their_range_are_refused(config, change, match):
    with pytest.raises((ValueError, TypeError), match=match):
        schema.check_settings({**decoded(config), **change}, [])


def test_a_path_is_left_out(config):
    settings = schema.check_settings({**decoded(config), "tensorboard_log": "/tmp/logs"}, [])
    assert "tensorboard_log" not in settings
