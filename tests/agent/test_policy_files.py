"""A policy alone: saved and loaded without its agent, as Stable-Baselines3's can be, and without pickle."""

import json

import numpy as np
import pytest
from stable_baselines3.common.torch_layers import FlattenExtractor

from wolpertinger import ActionTable, CheckpointError, archive
from wolpertinger.agent.policies import MultiInputPolicy, WolpertingerPolicy
from wolpertinger.agent.policy_files import KIND

from .envs import DictEnv, TargetEnv, small_agent

OBS = np.random.default_rng(0).uniform(-1, 1, (32, 2)).astype(np.float32)
AGENTS = {
    "nearest": {"k": 8},
    "critic": {"critic": "two-tower", "candidates": "critic", "k": 1},
    "target": {"k": 0.5, "rerank": "screened", "policy_kwargs": {"predict_by": "target", "n_critics": 2}},
    "defaults": {"critic": None, "candidates": None, "learner": None, "policy_kwargs": {}},
}


@pytest.mark.parametrize("name", AGENTS)
def test_a_policy_there_and_back(name, tmp_path):
    agent = small_agent(**AGENTS[name]).learn(60)
    agent.policy.save(tmp_path / "policy.zip")
    policy = WolpertingerPolicy.load(tmp_path / "policy.zip", device="cpu")
    assert policy.k == agent.k
    np.testing.assert_array_equal(policy.predict(OBS)[0], agent.policy.predict(OBS)[0])
    assert not policy.training


def test_a_policy_of_dict_observations(tmp_path):
    agent = small_agent(DictEnv(), "MultiInputPolicy")
    agent.policy.save(tmp_path / "policy")
    policy = MultiInputPolicy.load(tmp_path / "policy")
    obs = agent.observation_space.sample()
    assert policy.predict(obs)[0] == agent.policy.predict(obs)[0]


@pytest.fixture
def path(tmp_path):
    small_agent(k=8).policy.save(tmp_path / "policy.zip")
    return tmp_path / "policy.zip"


def test_an_agents_file_is_no_policy(tmp_path):
    small_agent().save(tmp_path / "agent.zip")
    with pytest.raises(CheckpointError, match="is a 'wolpertinger agent', a 'wolpertinger policy' was expected"):
        WolpertingerPolicy.load(tmp_path / "agent.zip")


def test_a_policy_takes_a_table_that_has_grown(path):
    vectors = TargetEnv().set.vectors
    policy = WolpertingerPolicy.load(path, actions=ActionTable(np.vstack([vectors, [[0.01, 0.02]]])))
    assert policy.action_space.n == len(vectors) + 1
    with pytest.raises(CheckpointError, match="no table that begins with the same rows"):
        WolpertingerPolicy.load(path, actions=ActionTable(vectors[::-1].copy()))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("net_arch", [10**9, 10**9]),
        ("activation_fn", {"class": "os.system"}),
        ("critic", {"kind": "evil"}),
        ("evil", 5),
        ("actions", 5),
        ("k", "8"),
    ],
)
def test_settings_that_cannot_be_are_refused(path, place, value):
    files = archive.read(path, KIND)
    config = json.loads(files["config.json"])
    config["settings"][place] = value
    archive.write(path, KIND, {**files, "config.json": json.dumps(config).encode()})
    with pytest.raises(CheckpointError, match="does not fit"):
        WolpertingerPolicy.load(path)


class OwnExtractor(FlattenExtractor):
    pass


def test_classes_of_the_users_own_are_not_saved(tmp_path):
    agent = small_agent(policy_kwargs={"features_extractor_class": OwnExtractor})
    with pytest.raises(TypeError, match=r"OwnExtractor.* cannot be saved"):
        agent.policy.save(tmp_path / "policy.zip")
