"""Arguments of the agent and of its methods: what was given, and what would be accepted."""

import re
from fractions import Fraction

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tests.agent.envs import TargetEnv, small_agent
from wolpertinger import Wolpertinger
from wolpertinger.agent.arguments import DEFAULT_BUFFER, check_observation, fit_buffer

NAN = float("nan")


def name(value):
    """The same in every process, which pytest-xdist wants; functions and objects tell their address."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gamma": 2}, "gamma=2: give a finite number from 0 to 1 or None"),
        ({"tau": 2}, "tau=2: give a finite number from 0 to 1 or None"),
        ({"n_steps": 0}, "n_steps=0: give a whole number from 1 to 10000 or None"),
        ({"batch_size": 0}, "batch_size=0: give a whole number from 1 to 1048576 or None"),
        ({"learning_starts": NAN}, "learning_starts=nan: give a whole number of at least 0"),
        ({"learning_rate": -1}, "learning_rate=-1: give a finite number of at least 0 or None"),
        ({"learning_rate": "abc"}, "learning_rate='abc': give a finite number of at least 0 or None"),
        ({"learning_rate": lambda left: -left}, "learning_rate(1.0)=-1.0: give a finite number of at least 0"),
        ({"final_learning_rate": -1.0}, "final_learning_rate=-1.0: give a finite number of at least 0 or None"),
        ({"actor_learning_rate": NAN}, "actor_learning_rate=nan: give a finite number of at least 0 or None"),
        ({"gradient_steps": -2}, "gradient_steps=-2: give a whole number from -1 to 10000 or None"),
        ({"train_freq": 0}, "train_freq=0: give a whole number of steps, 1 at least, or a pair such as (1, "),
        ({"train_freq": (1, "year")}, "train_freq=(1, 'year'): give a whole number of steps"),
        ({"buffer_size": 0}, "buffer_size=0: give a whole number of at least 1"),
        ({"seed": -1}, "seed=-1: give a whole number from 0 to 4294967295 or None"),
        ({"standardize": 1}, "standardize=1: give True or False or None"),
        ({"policy_kwargs": {"net_arch": [0]}}, "net_arch=[0]: give a list of layers, each a whole number from 1 to"),
        ({"policy_kwargs": {"net_arch": {"pi": [8]}}}, "net_arch={'pi': [8]}: give a list of layers"),
        ({"policy_kwargs": {"n_critics": 0}}, "n_critics=0: give a whole number from 1 to 100"),
        ({"policy_kwargs": {"k": 3}}, "policy_kwargs holds k: give it to Wolpertinger itself"),
        ({"device": "toaster"}, 'device=\'toaster\' is no device here: give "auto", "cpu" or "cuda"'),
        ({"device": "meta"}, "device='meta' is no device here"),
        ({"policy": "BestPolicy"}, "policy='BestPolicy': give one of 'MlpPolicy', 'CnnPolicy', 'MultiInputPolicy'"),
        ({"env": "Nope-v1"}, "env='Nope-v1' cannot be made: "),
    ],
    ids=name,
)
def test_numbers_and_names_are_checked(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Wolpertinger(**{"policy": "MlpPolicy", "env": TargetEnv(), **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policy_kwargs": 5}, "policy_kwargs=5: give a dict of settings by name"),
        ({"policy_kwargs": {"colour": 1}}, "policy_kwargs has no colour: it has predict_by, net_arch"),
        ({"policy_kwargs": {"optimizer_class": 3}}, "optimizer_class=3: give a subclass of Optimizer"),
        ({"policy_kwargs": {"optimizer_kwargs": {"x": 1}}}, "optimizer_kwargs has no x: it has lr, betas"),
        ({"policy_kwargs": {"activation_fn": 3}}, "activation_fn=3: give a class, such as torch.nn.ReLU"),
        ({"replay_buffer_class": int}, "replay_buffer_class=<class 'int'>: give a subclass of ReplayBuffer"),
        ({"replay_buffer_kwargs": {"x": 1}}, "replay_buffer_kwargs has no x: it has handle_timeout_termination"),
        ({"policy": 5}, "policy=5: give a subclass of WolpertingerPolicy"),
        ({"env": 5}, "env=5: give an environment, or the id of one"),
        ({"tensorboard_log": 5}, "tensorboard_log=5: give the path of a folder or None"),
        ({"learner": len}, "learner=<built-in function len> is called with networks, policy, tau: too many positional"),
        ({"learner": lambda *parts: None}, "which has no update(batch)"),
        ({"candidates": len}, "candidates=<built-in function len> is called with actions, critic: too many positional"),
    ],
    ids=name,
)
def test_kinds_are_checked(given, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        Wolpertinger(**{"policy": "MlpPolicy", "env": TargetEnv(), **given})


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, Fraction])
def test_numbers_of_other_kinds_are_as_good_as_pythons(kind, tmp_path):
    agent = small_agent(learning_rate=kind(0.25), gamma=kind(0.5), batch_size=np.int8(4))
    assert (agent.lr_schedule(1), agent.gamma, agent.batch_size) == (0.25, 0.5, 4)
    agent.learn(20).save(tmp_path / "agent.zip")
    assert Wolpertinger.load(tmp_path / "agent.zip").gamma == 0.5


def test_sizes_that_cannot_fit_are_refused_with_their_bytes():
    too_large = r"buffer_size=1,000,000,000,000 would take [\d,]{15,} bytes of memory, [\d,]+ are there"
    with pytest.raises(ValueError, match=too_large):
        small_agent(buffer_size=10**12)
    with pytest.raises(ValueError, match=r"net_arch=\[65536, .* would take [\d,]{12,} bytes of memory"):
        small_agent(policy_kwargs={"net_arch": [2**16] * 64})


def test_the_default_replay_buffer_is_made_to_fit():
    pictures, few = spaces.Box(0, 255, (2**26,), np.uint8), spaces.Discrete(4)
    with pytest.warns(UserWarning, match=r"67,108,864 bytes: the replay buffer keeps the last [\d,]+ tr"):
        kept = fit_buffer(DEFAULT_BUFFER, pictures, few, shares=False)
    assert 0 < kept < DEFAULT_BUFFER
    assert fit_buffer(DEFAULT_BUFFER, spaces.Box(0, 1, (4,)), few, shares=False) == DEFAULT_BUFFER
    with pytest.raises(ValueError, match="buffer_size=999,999 would take"):
        fit_buffer(999_999, pictures, few, shares=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"total_timesteps": NAN}, "total_timesteps=nan: give a finite number of at least 0"),
        ({"log_interval": -1}, "log_interval=-1: give a whole number of at least 0 or None"),
        ({"progress_bar": 1}, "progress_bar=1: give True or False"),
        ({"callback": 5}, "callback=5: give a callback, a list of them, or a function"),
        ({"tb_log_name": 5}, "tb_log_name=5: give a name"),
    ],
)
def test_what_learn_is_given_is_checked(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        small_agent().learn(**{"total_timesteps": 4, **given})


@pytest.mark.parametrize("ask", ["predict", "rank", "explain"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(3), r"the observation is float64 of shape \(3,\): give numbers of shape \(2,\), or a batch of them"),
        (np.array(["a", "b"]), "the observation is <U1 of shape"),
        (np.array([0, NAN]), "the observation holds numbers that are not finite in float32"),
        (np.array([0, 1e39]), "the observation holds numbers that are not finite in float32"),
        (np.ma.masked_array([0.0, 1.0], [True, False]), "the observation: a masked array; give a plain one"),
        (None, "the observation is object of shape"),
        ([[1, 2], [3]], "the observation: no array of numbers"),
        (torch.zeros(2, requires_grad=True), "the observation: no array of numbers"),
    ],
    ids=name,
)
def test_observations_are_checked(ask, given, message):
    agent = small_agent()
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(agent, ask)(given)


def test_observations_of_every_kind_are_accepted():
    both = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiBinary(2)})
    check_observation({"a": 2, "b": np.ones(2, np.int8)}, both)
    check_observation({"a": np.array([[0], [2]]).ravel(), "b": np.ones((2, 2))}, both)
    picture = spaces.Box(0, 255, (3, 36, 40), np.uint8)
    for shape in ((3, 36, 40), (36, 40, 3), (5, 3, 36, 40), (5, 36, 40, 3)):
        check_observation(np.zeros(shape, np.uint8), picture)
    with pytest.raises(ValueError, match=r"the observation is .*: give a dict of a, b"):
        check_observation({"a": 1}, both)
    with pytest.raises(ValueError, match=r"the observation\['a'\] is array\(3\): give integers of Discrete\(3\)"):
        check_observation({"a": 3, "b": np.ones(2)}, both)
