"""Training that goes on from a file is the training that never stopped, to the bit."""

import warnings

import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from wolpertinger import DDPG, CheckpointError, Exploration, Wolpertinger
from wolpertinger.agent.buffer_files import buffer_arrays
from wolpertinger.agent.checkpoint_folder import CheckpointFolder
from wolpertinger.agent.segments import checkpoints_in
from wolpertinger.envs.state import Restorable

from .envs import DictEnv, TargetEnv, small_agent

SAVED_AT, STEPS = 60, 120


class RestorableEnv(Restorable, TargetEnv):
    state_names = ("step_number", "target")


class RestorableDictEnv(Restorable, DictEnv):
    state_names = ("step_number", "target")


class SaveAt(BaseCallback):
    def __init__(self, save):
        super().__init__()
        self.save = save

    def _on_step(self):
        return True

    def _on_rollout_start(self):
        if self.model.num_timesteps == SAVED_AT:
            self.save(self.model)


def state_of(agent):
    moments = {
        f"{name}.{index}.{key}": torch.as_tensor(value).numpy()
        for name in ("actor", "critic")
        for index, values in getattr(agent, name).optimizer.state_dict()["state"].items()
        for key, value in values.items()
    }
    return {
        **{f"policy.{name}": tensor.numpy() for name, tensor in agent.policy.state_dict().items()},
        **{f"buffer.{name}": array for name, array in buffer_arrays(agent.replay_buffer).items()},
        "numpy": np.random.get_state()[1],  # noqa: NPY002
        "torch": torch.get_rng_state().numpy(),
        "explorer": np.array([agent.explorer.rng.random()]),
        **moments,
    }


def same_state(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not np.array_equal(one[name], other[name])] == []


OU = Exploration(noise="ornstein-uhlenbeck", sigma=0.3, epsilon=0.1)
CASES = {
    "nearest": ({}, RestorableEnv),
    "td3 and noise with a memory": ({"learner": "td3", "exploration": OU}, RestorableEnv),
    "sampled targets": ({"learner": DDPG(target_samples=4)}, RestorableEnv),
    "two towers": (
        {"critic": "two-tower", "candidates": "critic", "exploration": Exploration(noise=None, epsilon=0.3)},
        RestorableEnv,
    ),
    "predicts by the target": (
        {"critic": "two-tower", "candidates": "both", "policy_kwargs": {"predict_by": "target", "dropout": 0.1}},
        RestorableEnv,
    ),
    "n steps": ({"n_steps": 3}, RestorableEnv),
    "dict observations": ({"policy": "MultiInputPolicy"}, RestorableDictEnv),
}


def make(case, **more):
    options, env = CASES[case]
    return small_agent(env(length=7, points_per_axis=8), k=2, **{**options, **more})


@pytest.mark.parametrize("form", ["file", "folder"])
@pytest.mark.parametrize("case", CASES)
def test_a_resumed_training_is_the_one_that_never_stopped(case, form, tmp_path):
    checkpoints = CheckpointFolder(tmp_path / "state")
    path = tmp_path / "agent.zip" if form == "file" else tmp_path / "state"

    def save(agent):
        checkpoints.save(agent) if form == "folder" else agent.save(path, include=["training"])

    whole = make(case).learn(STEPS, callback=SaveAt(save))
    expected = state_of(whole)
    np.random.seed(99)  # noqa: NPY002 - what else the host may have drawn
    torch.manual_seed(99)
    again = Wolpertinger.load(path, env=CASES[case][1](length=7, points_per_axis=8))
    assert again.num_timesteps == SAVED_AT
    again.learn(STEPS - SAVED_AT, reset_num_timesteps=False)
    same_state(state_of(again), expected)
    assert [part["r"] for part in again.ep_info_buffer] == [part["r"] for part in whole.ep_info_buffer]
    assert (again._episode_num, again._n_updates) == (whole._episode_num, whole._n_updates)


def test_running_means_of_normalised_environments_go_on(tmp_path):
    def env():
        return VecNormalize(DummyVecEnv([lambda: RestorableEnv(length=7, points_per_axis=8)] * 2))

    path = tmp_path / "agent.zip"
    whole = small_agent(env(), k=2).learn(STEPS, callback=SaveAt(lambda agent: agent.save(path, include=["training"])))
    expected = state_of(whole)
    again = Wolpertinger.load(path, env=env()).learn(STEPS - SAVED_AT, reset_num_timesteps=False)
    same_state(state_of(again), expected)
    assert np.array_equal(again.env.obs_rms.mean, whole.env.obs_rms.mean)


def test_an_environment_without_a_state_says_so_and_begins_new_episodes(tmp_path):
    path = tmp_path / "agent.zip"
    whole = small_agent(TargetEnv(length=7)).learn(
        STEPS, callback=SaveAt(lambda agent: agent.save(path, include=["training"]))
    )
    again = Wolpertinger.load(path, env=TargetEnv(length=7))
    with pytest.warns(UserWarning, match=r"new episodes begin.*get_state\(\) and set_state\(state\)"):
        again.learn(STEPS - SAVED_AT, reset_num_timesteps=False)
    assert again.num_timesteps == whole.num_timesteps
    first = slice(SAVED_AT)
    assert np.array_equal(again.replay_buffer.rewards[first], whole.replay_buffer.rewards[first])
    assert not np.array_equal(again.replay_buffer.observations[SAVED_AT + 1], whole.replay_buffer.observations[0])


def test_a_new_training_of_a_loaded_agent_begins_with_a_reset(tmp_path):
    path = tmp_path / "agent.zip"
    make("nearest").learn(STEPS, callback=SaveAt(lambda agent: agent.save(path, include=["training"])))
    again = Wolpertinger.load(path, env=RestorableEnv(length=7, points_per_axis=8))
    assert again.learn(14).num_timesteps == 14


@pytest.fixture
def folder(tmp_path):
    """Of three checkpoints at 20, 40 and 60 steps."""
    agent, checkpoints = make("nearest"), CheckpointFolder(tmp_path)
    for _ in range(4):
        checkpoints.save(agent.learn(20, reset_num_timesteps=False))
    return tmp_path


def test_the_last_three_are_kept_with_what_they_need(folder):
    assert [path.name for path in checkpoints_in(folder)] == ["000003.zip", "000002.zip", "000001.zip"]
    steps = [
        Wolpertinger.load(path, env=RestorableEnv(points_per_axis=8)).num_timesteps for path in checkpoints_in(folder)
    ]
    assert steps == [80, 60, 40]
    assert len(list(folder.iterdir())) < 12


@pytest.mark.parametrize("which", ["archive", "segment"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_taken(folder, which):
    newest = checkpoints_in(folder)[0]
    damaged = newest if which == "archive" else max(folder.glob("rows-*"), key=lambda path: path.stat().st_mtime_ns)
    damaged.write_bytes(damaged.read_bytes()[:-7])
    env = RestorableEnv(points_per_axis=8)
    with pytest.warns(UserWarning, match=rf"{damaged.name}.* the checkpoint before it is taken"):
        assert Wolpertinger.load(folder, env=env).num_timesteps == 60
    for path in checkpoints_in(folder):
        path.write_bytes(b"")
    with (
        warnings.catch_warnings(action="ignore"),
        pytest.raises(CheckpointError, match=r"000001\.zip is damaged or not a checkpoint"),
    ):
        Wolpertinger.load(folder, env=env)


def test_a_buffer_that_somebody_else_filled_is_written_whole(folder, tmp_path):
    agent = Wolpertinger.load(folder, env=RestorableEnv(points_per_axis=8))
    checkpoints = CheckpointFolder(folder, resumed=checkpoints_in(folder)[0])
    agent.save_replay_buffer(tmp_path / "buffer.zip")
    agent.replay_buffer.rewards[:] += 1
    agent.save_replay_buffer(tmp_path / "other.zip")
    agent.load_replay_buffer(tmp_path / "other.zip")
    checkpoints.save(agent)
    again = Wolpertinger.load(folder, env=RestorableEnv(points_per_axis=8))
    assert np.array_equal(again.replay_buffer.rewards[:80], agent.replay_buffer.rewards[:80])
