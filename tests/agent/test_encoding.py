"""Spaces and settings as JSON and back."""

import json

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.torch_layers import NatureCNN

from wolpertinger import DDPG, BestByCritic, Nearest, TwoTower, Union
from wolpertinger.agent.encoding import decode_space, decode_value, encode_space, encode_value

SPACES = [
    spaces.Box(-1, 1, (3,), np.float32),
    spaces.Box(np.array([0.1, -np.inf]), np.array([np.inf, 0.3]), dtype=np.float64),
    spaces.Box(0, 255, (36, 36, 1), np.uint8),
    spaces.Discrete(7),
    spaces.Discrete(7, start=-2),
    spaces.Discrete(7, dtype=np.int32),
    spaces.MultiDiscrete([2, 3, 2**40]),
    spaces.MultiDiscrete([2, 3], dtype=np.int32, start=[1, 0]),
    spaces.MultiBinary(4),
    spaces.MultiBinary([2, 3]),
    spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(0, 1, (2, 2))}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_there_and_back(space):
    decoded = decode_space(json.loads(json.dumps(encode_space(space))))
    assert decoded == space
    assert decoded.dtype == space.dtype


def test_a_space_that_cannot_be_saved_is_named():
    with pytest.raises(TypeError, match=r"Text.*cannot be saved: Box, Discrete"):
        encode_space(spaces.Text(5))


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 0.1, "text", [1, [2, "a"]], {"net_arch": {"pi": [4], "qf": [5]}}),
        *(torch.nn.ELU, torch.optim.SGD, NatureCNN, NStepReplayBuffer, {"features_extractor_class": NatureCNN}),
    ],
    ids=str,
)
def test_values_there_and_back(value):
    decoded = decode_value(json.loads(json.dumps(encode_value(value))))
    assert decoded == value
    assert type(decoded) is type(value)


def test_settings_become_what_they_say_of_themselves():
    for settings in (TwoTower(width=3), DDPG(anchor=0.5), Nearest()):
        assert encode_value({"part": settings}) == {"part": settings.to_json()}
    both = encode_value(Union((Nearest(), BestByCritic(refresh_every=3))))
    assert both == {"kind": "both", "sources": [{"kind": "nearest"}, {"kind": "critic", "refresh_every": 3}]}
    with pytest.raises(TypeError, match="cannot be saved"):
        encode_value(Union((Nearest(), len)))


def test_numpy_numbers_become_plain_ones():
    assert encode_value({"k": np.int64(3), "lr": np.float32(0.5)}) == {"k": 3, "lr": 0.5}


@pytest.mark.parametrize(
    "value", [len, torch.zeros(2), {"class": int}, object], ids=["function", "tensor", "int", "object"]
)
def test_what_cannot_be_said_in_json_is_refused(value):
    with pytest.raises(TypeError, match="cannot be saved"):
        encode_value(value)


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "torch.nn.functional", "torch.load"])
def test_no_other_class_is_ever_looked_up(name):
    with pytest.raises(KeyError, match=name):
        decode_value({"class": name})
