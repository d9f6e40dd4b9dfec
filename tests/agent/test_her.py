"""Stable-Baselines3's HerReplayBuffer: learned with, saved and loaded like the others."""

import json
import warnings

import numpy as np
import pytest
import safetensors.numpy
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

from wolpertinger import CheckpointError, Wolpertinger, archive
from wolpertinger.agent.buffer_files import KIND

from .envs import small_agent

ARRAYS = ("ep_start", "ep_length", "actions", "rewards", "dones", "timeouts", "_current_ep_start")


def make_env():
    return BitFlippingEnv(n_bits=5, continuous=False)


def goal_agent(n_envs=1, **settings):
    her = {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": {"n_sampled_goal": 2}, "buffer_size": 400}
    return small_agent(make_vec_env(make_env, n_envs=n_envs), "MultiInputPolicy", k=2, **{**her, **settings})


def same_buffer(one, other):
    assert (one.pos, one.full) == (other.pos, other.full)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("strategy", ["final", GoalSelectionStrategy.EPISODE])
def test_an_agent_there_and_back(tmp_path, strategy):
    agent = goal_agent(replay_buffer_kwargs={"n_sampled_goal": 3, "goal_selection_strategy": strategy}).learn(80)
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", env=make_env())
    assert type(loaded.replay_buffer) is HerReplayBuffer
    assert loaded.replay_buffer.goal_selection_strategy == agent.replay_buffer.goal_selection_strategy
    assert loaded.replay_buffer.her_ratio == 0.75
    assert loaded.learn(40, reset_num_timesteps=False).num_timesteps == 120


def test_without_an_environment_it_predicts_and_learns_once_it_has_one(tmp_path):
    agent = goal_agent().learn(80)
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    obs = agent.env.reset()
    assert loaded.predict(obs)[0] == agent.predict(obs)[0]
    loaded.set_env(make_vec_env(make_env))
    assert type(loaded.replay_buffer) is HerReplayBuffer
    assert loaded.learn(40).replay_buffer.pos == 40
    agent.save(tmp_path / "agent.zip", include=["replay_buffer"])
    with pytest.raises(CheckpointError, match="HerReplayBuffer asks the environment for rewards: give env= to load"):
        Wolpertinger.load(tmp_path / "agent.zip")


@pytest.mark.parametrize(("n_envs", "steps"), [(1, 83), (1, 520), (3, 120)], ids=["part", "full", "three"])
def test_a_replay_buffer_there_and_back(tmp_path, n_envs, steps):
    agent, other = goal_agent(n_envs).learn(steps), goal_agent(n_envs)
    agent.save_replay_buffer(tmp_path / "buffer.zip")
    other.load_replay_buffer(tmp_path / "buffer.zip", truncate_last_traj=False)
    same_buffer(other.replay_buffer, agent.replay_buffer)
    other.load_replay_buffer(tmp_path / "buffer.zip")  # the episode that was going on has ended
    with warnings.catch_warnings(action="ignore"):
        agent.replay_buffer.truncate_last_trajectory()
    same_buffer(other.replay_buffer, agent.replay_buffer)
    other.learn(20 * n_envs)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ep_start", -1), ("ep_start", 10**6), ("ep_start", 7), ("ep_length", -1), ("ep_length", 10**6)],
)
def test_episodes_that_cannot_be_are_refused(tmp_path, name, value):
    goal_agent().learn(83).save_replay_buffer(tmp_path / "buffer.zip")
    files = archive.read(tmp_path / "buffer.zip", KIND)
    arrays = safetensors.numpy.load(files["replay_buffer.safetensors"])
    arrays[name] = np.full_like(arrays[name], value)
    crafted = {**files, "replay_buffer.safetensors": safetensors.numpy.save(arrays)}
    archive.write(tmp_path / "buffer.zip", KIND, crafted)
    with pytest.raises(CheckpointError, match="episodes do not fit together"):
        goal_agent().load_replay_buffer(tmp_path / "buffer.zip")


@pytest.mark.parametrize("begun", [[-1], [400], [1, 2], 5, ["x"], [1.5]])
def test_a_present_episode_that_cannot_be_is_refused(tmp_path, begun):
    goal_agent().learn(83).save_replay_buffer(tmp_path / "buffer.zip")
    files = archive.read(tmp_path / "buffer.zip", KIND)
    facts = {**json.loads(files["replay_buffer.json"]), "episode_start": begun}
    archive.write(tmp_path / "buffer.zip", KIND, {**files, "replay_buffer.json": json.dumps(facts).encode()})
    with pytest.raises(CheckpointError, match="episodes do not fit together"):
        goal_agent().load_replay_buffer(tmp_path / "buffer.zip")


def test_infos_are_not_saved(tmp_path):
    agent = goal_agent(replay_buffer_kwargs={"copy_info_dict": True}).learn(40)
    with pytest.raises(TypeError, match="copy_info_dict=True cannot be saved"):
        agent.save_replay_buffer(tmp_path / "buffer.zip")
