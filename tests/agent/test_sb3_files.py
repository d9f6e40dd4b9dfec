"""What Stable-Baselines3's users do with files, and its own tests of them, with this agent's."""

import numpy as np
import pytest
import safetensors.numpy
import torch
from stable_baselines3.common.monitor import Monitor

from wolpertinger import CheckpointError, Wolpertinger, archive
from wolpertinger.agent.checkpoint import KIND

from .envs import TargetEnv, small_agent

OBS = np.random.default_rng(0).uniform(-1, 1, (32, 2)).astype(np.float32)


def actions_of(agent):
    return agent.predict(OBS, deterministic=True)[0]


@pytest.fixture(scope="module")
def agent():
    return small_agent(TargetEnv(length=5)).learn(60)


@pytest.fixture
def path(agent, tmp_path):
    agent.save(tmp_path / "agent.zip")
    return tmp_path / "agent.zip"


def test_custom_objects_that_nobody_knows_are_ignored_and_settings_are_not(path):
    """What the zoo's `enjoy` gives for every algorithm; Stable-Baselines3 ignores it, too."""
    given = {"learning_rate": 0.25, "lr_schedule": lambda _: 0.0, "clip_range": lambda _: 0.0}
    assert Wolpertinger.load(path, custom_objects=given).learning_rate == 0.25
    with pytest.raises(TypeError, match="settings has no lr_schedule"):
        Wolpertinger.load(path, lr_schedule=0.0)


def test_without_a_reset_it_goes_on_amid_the_episode(tmp_path):
    env = Monitor(TargetEnv(length=5))
    agent = small_agent(env).learn(42)
    agent.save(tmp_path / "agent.zip")
    last_obs = agent._last_obs
    loaded = Wolpertinger.load(tmp_path / "agent.zip", env=agent.get_env(), force_reset=False)
    np.testing.assert_array_equal(loaded._last_obs, last_obs)
    loaded.learn(8, reset_num_timesteps=False)
    assert env.get_episode_lengths()[-2:] == [5, 5]  # with a reset the last but one would have had 2 steps
    np.testing.assert_array_equal(loaded.replay_buffer.observations[0], last_obs)
    assert Wolpertinger.load(tmp_path / "agent.zip", env=agent.get_env())._last_obs is None


@pytest.mark.parametrize("last_obs", [np.zeros((1, 3), np.float32), np.full((1, 2), np.nan, np.float32), None])
def test_a_last_observation_that_is_none_is_refused(path, last_obs):
    arrays = {} if last_obs is None else {"state.last_obs": last_obs}
    files = {**archive.read(path, KIND), "last_obs.safetensors": safetensors.numpy.save(arrays)}
    archive.write(path, KIND, files)
    Wolpertinger.load(path)  # which does not ask for it
    with pytest.raises(CheckpointError, match=r"last_obs\.json in the file does not fit"):
        Wolpertinger.load(path, force_reset=False)


def test_settings_of_the_training_can_be_left_out(tmp_path):
    agent = small_agent(verbose=2, batch_size=32)
    agent.save(tmp_path / "agent.zip", exclude=["verbose", "batch_size", "env"])
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert (loaded.verbose, loaded.batch_size) == (0, Wolpertinger("MlpPolicy", TargetEnv()).batch_size)
    agent.save(tmp_path / "agent.zip", exclude=["verbose"], include=["verbose"])
    assert Wolpertinger.load(tmp_path / "agent.zip").verbose == 2
    with pytest.raises(ValueError, match="unknown critic: exclude takes actions, replay_buffer"):
        agent.save(tmp_path / "agent.zip", exclude=["critic"])  # its networks would not fit


@pytest.mark.parametrize(("size", "kept"), [(30, range(31, 61)), (60, range(1, 61)), (200, range(61))])
def test_a_replay_buffer_of_another_size_takes_the_newest_rows(tmp_path, size, kept):
    agent = small_agent(TargetEnv(length=5), learning_starts=100).learn(61)
    agent.save_replay_buffer(tmp_path / "buffer.zip")
    other = small_agent(buffer_size=size)
    other.load_replay_buffer(tmp_path / "buffer.zip")
    found, rows = other.replay_buffer, list(kept)
    assert (found.pos, found.full) == (len(rows) % size, len(rows) == size)
    np.testing.assert_array_equal(found.observations[: len(rows)], agent.replay_buffer.observations[rows])
    np.testing.assert_array_equal(found.rewards[: len(rows)], agent.replay_buffer.rewards[rows])
    other.learn(20)


def test_a_full_replay_buffer_is_unrolled_into_a_larger_one(tmp_path):
    agent = small_agent(TargetEnv(length=5), learning_starts=100, buffer_size=40).learn(55)
    agent.save_replay_buffer(tmp_path / "buffer.zip")
    other = small_agent(buffer_size=100)
    other.load_replay_buffer(tmp_path / "buffer.zip")
    assert (other.replay_buffer.pos, other.replay_buffer.full) == (40, False)
    np.testing.assert_array_equal(other.replay_buffer.rewards[:40], np.roll(agent.replay_buffer.rewards, -15, axis=0))


def test_an_agent_without_a_replay_buffer_gets_that_of_the_file(agent, tmp_path):
    agent.save_replay_buffer(tmp_path / "buffer.zip")
    other = small_agent()
    other.replay_buffer = None
    other.load_replay_buffer(tmp_path / "buffer.zip")
    np.testing.assert_array_equal(other.replay_buffer.observations, agent.replay_buffer.observations)
    assert other.learn(20, reset_num_timesteps=False).replay_buffer.pos == 80


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method. is deprecated")
@pytest.mark.parametrize("part", ["policy", "critic"])
def test_a_compiled_agent_is_saved_as_any_other(tmp_path, part):
    agent = small_agent(TargetEnv(length=5)).learn(30)
    if part == "policy":
        agent.policy = torch.compile(agent.policy, backend="eager")
    else:
        agent.policy.critic = agent.critic = torch.compile(agent.critic, backend="eager")
    agent.save(tmp_path / "agent.zip")
    names = safetensors.numpy.load(archive.read(tmp_path / "agent.zip", KIND)["networks.safetensors"])
    assert not any("_orig_mod" in name for name in names)
    np.testing.assert_array_equal(actions_of(Wolpertinger.load(tmp_path / "agent.zip")), actions_of(agent))
