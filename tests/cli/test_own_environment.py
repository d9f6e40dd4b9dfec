"""An environment of the user's own, from training to its film, by the command line alone."""

import json
import sys

import gymnasium as gym
import numpy as np
import pytest

from wolpertinger import Wolpertinger
from wolpertinger.cli import main

SHOP = """
import gymnasium as gym
import numpy as np


class Shop(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(self, items=40, allows=False, render_mode=None):
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(items)
        self.render_mode = render_mode
        if allows:
            self.allowed_actions = lambda: np.arange(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        assert not hasattr(self, "allowed_actions") or action < 3
        self.left -= 1
        reward = float(action == 1)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), reward, self.left == 0, False, {}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)


gym.register("Shop-v0", entry_point=Shop)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_shop.py").write_text(SHOP)
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).uniform(-1, 1, (40, 3)))
    yield tmp_path
    sys.modules.pop("own_shop", None)
    gym.registry.pop("Shop-v0", None)


TRAIN = ["train", "environment", "--env-id", "own_shop:Shop-v0", "--steps", "60", "--set", "learning_starts=20"]
TRAIN += ["--set", "batch_size=8", "--out", "run"]


def test_it_is_trained_scored_and_filmed(folder, capsys, monkeypatch):
    assert main([*TRAIN, "--vectors", "vectors.npy"]) == 0
    agent = Wolpertinger.load(folder / "run" / "checkpoints" / "last.zip")
    assert (agent.actions.n, agent.actions.dim, agent.exploration.epsilon) == (40, 3, 0.2)  # the class's own choice
    capsys.readouterr()
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")  # where the vectors' path, as it was given, leads nowhere
    assert main(["evaluate", "../run", "--episodes", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sampled"]["episodes"] == 4
    assert "random" in found["baselines"]
    assert main(["watch", "../run", "--out", "film.gif"]) == 0
    assert "6 pictures" in capsys.readouterr().out


def test_without_vectors_each_action_is_learned_by_itself(folder, capsys):
    assert main([*TRAIN, "--options", '{"items": 7}']) == 0
    agent = Wolpertinger.load(folder / "run" / "checkpoints" / "last.zip")
    assert agent.actions.is_numbered
    assert agent.actions.n == 7


def test_one_that_says_what_is_allowed_is_scored_and_filmed_as_it_was_trained(folder):
    assert main([*TRAIN, "--options", '{"allows": true}']) == 0
    assert main(["evaluate", "run", "--episodes", "3"]) == 0
    assert main(["watch", "run", "--out", "film.gif"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--env-id", "own_shop:Shop-v1"], "cannot be made"),
        (["--env-id", "no_such_module:Shop-v0"], "cannot be made: No module named 'no_such_module'"),
        (["--env-id", "Pendulum-v1"], "the environment's actions are continuous"),
        (["--options", '{"colour": 1}'], "colour"),
        (["--vectors", "nowhere.npy"], "nowhere.npy"),
        (["--options", '{"items": 41}', "--vectors", "vectors.npy"], "the environment takes 41 actions"),
    ],
)
def test_what_does_not_fit_is_one_line(folder, capsys, options, message):
    assert main([*TRAIN, *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_options_are_a_json_object(folder, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*TRAIN, "--options", "5"])
    assert "'5' is no JSON object" in capsys.readouterr().err


def test_one_that_draws_nothing_has_no_film(folder, capsys):
    (folder / "own_shop.py").write_text(SHOP.replace('"rgb_array"', ""))
    assert main(TRAIN) == 0
    assert main(["watch", "run"]) == 2
    assert "own_shop:Shop-v0 draws no pictures: give it the render_mode rgb_array" in capsys.readouterr().err
