"""Save, load, go on: nothing lost, nothing run, and an error that says what is wrong."""

import errno
import inspect
import io
import json
import os
import random
import subprocess
import sys
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import safetensors.torch
import torch
from stable_baselines3 import TD3
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import FlattenExtractor

from wolpertinger import (
    DDPG,
    MLP,
    ActionProduct,
    ActionTable,
    BestByCritic,
    CheckpointError,
    Exploration,
    Nearest,
    TwoTower,
    Union,
    Wolpertinger,
    archive,
)
from wolpertinger.agent.buffer_files import KIND as BUFFER_KIND
from wolpertinger.agent.checkpoint import KIND
from wolpertinger.agent.policies import WolpertingerPolicy
from wolpertinger.index import ExactIndex, tune, tuning_run

from .envs import PLAIN_NETWORKS, DictEnv, ImageEnv, RoomEnv, TargetEnv, small_agent

OBS = np.random.default_rng(0).uniform(-1, 1, (32, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def agent():
    return small_agent(TargetEnv(length=5), k=0.05, exploration=Exploration(sigma=0.3, epsilon=0.1)).learn(60)


@pytest.fixture
def path(agent, tmp_path):
    agent.save(tmp_path / "agent.zip")
    return tmp_path / "agent.zip"


def actions_of(agent, obs=OBS):
    return agent.predict(obs, deterministic=True)[0]


def same_tensors(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def optimiser_state(network):
    state = network.optimizer.state_dict()["state"]
    return {f"{i} {name}": value for i, moments in state.items() for name, value in moments.items()}


def rewrite(path, change, kind=KIND):
    """The checkpoint with its files changed by a function, and a manifest that fits: a malicious writer's work."""
    files = archive.read(path, kind)
    archive.write(path, kind, change(files))


def with_config(**changes):
    def change(files):
        return {**files, "config.json": json.dumps({**json.loads(files["config.json"]), **changes}).encode()}

    return change


SCRIPT = """
import sys, numpy as np, torch
torch.set_num_threads(1)
from wolpertinger import Wolpertinger
agent = Wolpertinger.load(sys.argv[1])
assert agent.env is None
np.save(sys.argv[3], agent.predict(np.load(sys.argv[2]), deterministic=True)[0])
"""


def test_a_new_process_without_environment_picks_the_same_actions(agent, path, tmp_path):
    np.save(tmp_path / "obs.npy", OBS)
    command = [sys.executable, "-c", SCRIPT, str(path), str(tmp_path / "obs.npy"), str(tmp_path / "chosen.npy")]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "chosen.npy"), actions_of(agent))


def test_everything_comes_back(agent, path):
    loaded = Wolpertinger.load(path)
    same_tensors(loaded.policy.state_dict(), agent.policy.state_dict())
    for name in ("actor", "critic"):
        assert optimiser_state(getattr(agent, name))  # Adam's moments
        same_tensors(optimiser_state(getattr(loaded, name)), optimiser_state(getattr(agent, name)))
    assert loaded.k == agent.k == 51
    assert loaded.exploration == agent.exploration
    for name in (
        "num_timesteps",
        "_n_updates",
        "_episode_num",
        "_total_timesteps",
        "batch_size",
        "gamma",
        "train_freq",
    ):
        assert getattr(loaded, name) == getattr(agent, name), name
    assert loaded.observation_space == agent.observation_space
    assert loaded.action_space == agent.action_space


def test_every_argument_of_the_agent_is_saved(path):
    saved = json.loads(archive.read(path, KIND)["config.json"])["settings"]
    given_anew = {"self", "env", "device", "_init_setup_model", "tensorboard_log"}
    saved_beside = {"policy", "actions"}
    assert saved.keys() == inspect.signature(Wolpertinger.__init__).parameters.keys() - given_anew - saved_beside


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"critic": "two-tower", "candidates": BestByCritic(refresh_every=7)},
        {"critic": "two-tower", "candidates": "both", "learner": DDPG(anchor=0.1, gradient_at="action")},
    ],
    ids=["nearest", "critic", "both"],
)
def test_training_goes_on_as_if_nothing_had_happened(tmp_path, settings):
    agent = small_agent(TargetEnv(length=5), **settings).learn(60)
    agent.save(tmp_path / "agent.zip", include=["replay_buffer"])
    loaded = Wolpertinger.load(tmp_path / "agent.zip", env=TargetEnv(length=5))
    loaded.set_logger(agent.logger)
    for one in (agent, loaded):
        np.random.seed(7)  # noqa: NPY002 - Stable-Baselines3's buffer draws from here
        one.train(5, 16)
    same_tensors(loaded.policy.state_dict(), agent.policy.state_dict())
    for name in ("actor", "critic"):
        same_tensors(optimiser_state(getattr(loaded, name)), optimiser_state(getattr(agent, name)))


def test_loaded_with_an_environment_it_learns_on(path):
    loaded = Wolpertinger.load(path, env=TargetEnv(length=5))
    before = loaded._n_updates
    loaded.learn(40, reset_num_timesteps=False)
    assert loaded.num_timesteps == 100
    assert loaded._n_updates > before
    assert loaded.k == 51


def test_k_set_later_is_kept(tmp_path):
    agent = small_agent(k=3)
    agent.k = 0.25
    agent.save(tmp_path / "agent")
    assert Wolpertinger.load(tmp_path / "agent").k == 256


def test_settings_are_saved_as_they_were_given_and_as_they_were_set_since(tmp_path):
    agent = small_agent(k=0.25, gamma=0.9, train_freq=(2, "step"), learner="ddpg")
    agent.gamma, agent.batch_size = 0.5, 7
    agent.save(tmp_path / "agent.zip")
    saved = json.loads(archive.read(tmp_path / "agent.zip", KIND)["config.json"])
    assert saved["unsaved_settings"] == []
    settings = saved["settings"]
    assert (settings["k"], settings["gamma"], settings["batch_size"]) == (0.25, 0.5, 7)
    assert settings["critic"] == {"kind": "mlp", "interaction": False}
    assert settings["candidates"] == {"kind": "nearest"}
    assert settings["learner"] == DDPG().to_json()
    assert settings["exploration"] == Exploration(epsilon=0.1).to_json()
    assert settings["train_freq"] == [2, "step"]
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert (loaded.gamma, loaded.batch_size, loaded.train_freq) == (0.5, 7, agent.train_freq)


def test_a_loaded_agent_may_look_for_candidates_in_another_way(tmp_path):
    agent = small_agent(critic="two-tower", candidates="critic").learn(30)
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", candidates="nearest")
    assert loaded._arguments["candidates"] == Nearest()
    same_tensors(loaded.policy.state_dict(), agent.policy.state_dict())
    assert loaded.explain(OBS[0]).sources.tolist() == ["nearest"] * 8


def test_settings_can_be_replaced(path):
    loaded = Wolpertinger.load(path, k=2, gamma=0.5, exploration=Exploration(noise=None), learning_rate=0.5)
    assert (loaded.k, loaded.gamma, loaded.exploration.noise, loaded.learning_rate) == (2, 0.5, None, 0.5)
    with pytest.raises(TypeError, match="gama"):
        Wolpertinger.load(path, gama=0.5)


def test_a_path_without_suffix_gets_one(agent, tmp_path):
    agent.save(str(tmp_path / "agent"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["agent.zip"]
    (tmp_path / "agent").mkdir()
    np.testing.assert_array_equal(actions_of(Wolpertinger.load(str(tmp_path / "agent"))), actions_of(agent))


def test_an_open_file_will_do(agent):
    buffer = io.BytesIO()
    agent.save(buffer)
    np.testing.assert_array_equal(actions_of(Wolpertinger.load(buffer)), actions_of(agent))


VARIANTS = {
    "ids of a product": lambda: (TargetEnv(ActionProduct([np.linspace(-1, 1, 5)] * 2), length=4), {}),
    "digits": lambda: (TargetEnv(ActionProduct([[-1, 0, 1], np.eye(2)], space="multidiscrete"), length=4), {"k": 3}),
    "2**100 actions": lambda: (TargetEnv(ActionProduct([[0, 1]] * 100), length=4), {}),
    "index": lambda: (TargetEnv(ActionTable(OBS, index="HNSW16"), length=4), {}),
    "promised": lambda: (TargetEnv(ActionTable(OBS, recall=0.9), length=4), {}),
    "dict": lambda: (DictEnv(length=4), {"policy": "MultiInputPolicy"}),
    "image": lambda: (ImageEnv(length=4), {"policy": "CnnPolicy", "buffer_size": 100}),
    "room": lambda: (RoomEnv(length=4), {}),
    "n steps": lambda: (TargetEnv(length=4), {"n_steps": 3}),
    "memory": lambda: (
        TargetEnv(length=4),
        {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}},
    ),
    "own n steps": lambda: (
        TargetEnv(length=4),
        {"replay_buffer_class": NStepReplayBuffer, "replay_buffer_kwargs": {"n_steps": 2, "gamma": 0.9}},
    ),
    "networks": lambda: (
        TargetEnv(length=4),
        {"policy_kwargs": {"net_arch": {"pi": [8], "qf": [9, 9]}, "layer_norm": True, "n_critics": 2}},
    ),
    "SGD": lambda: (
        TargetEnv(length=4),
        {
            "policy_kwargs": {
                "optimizer_class": torch.optim.SGD,
                "optimizer_kwargs": {"momentum": 0.5},
                "activation_fn": torch.nn.ELU,
            }
        },
    ),
    "RMSprop": lambda: (TargetEnv(length=4), {"policy_kwargs": {"optimizer_class": torch.optim.RMSprop}}),
    "two towers": lambda: (
        TargetEnv(length=4),
        {
            "critic": TwoTower(width=4, state_embedding=8, action_embedding=0.5, embedding_scale=3.0),
            "candidates": BestByCritic(refresh_every=7),
            "policy_kwargs": {"predict_by": "target"},
        },
    ),
    "both": lambda: (
        TargetEnv(length=4),
        {"critic": "two-tower", "candidates": Union((BestByCritic(refresh_every=7), Nearest()))},
    ),
    "all": lambda: (TargetEnv(length=4), {"candidates": "all", "critic": MLP(interaction=True)}),
    "learner": lambda: (
        TargetEnv(length=4),
        {"learner": DDPG(critic_loss="huber", anchor=0.1, gradient_at="action", max_grad_norm=2.0)},
    ),
    "a folder called custom": lambda: (TargetEnv(length=4), {"tensorboard_log": "custom"}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_kind_of_agent_comes_back_with_its_buffer(variant, tmp_path):
    env, settings = VARIANTS[variant]()
    agent = small_agent(env, **settings)
    if variant != "a folder called custom":
        agent.learn(30)
    agent.save(tmp_path / "agent.zip", include=["replay_buffer"])
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    same_tensors(loaded.policy.state_dict(), agent.policy.state_dict())
    same_tensors(optimiser_state(loaded.critic), optimiser_state(agent.critic))
    assert loaded.actions.sha256 == agent.actions.sha256
    assert loaded.actions.space == agent.actions.space
    for name in ("critic", "candidates", "learner", "exploration", "k"):
        assert loaded._arguments[name] == agent._arguments[name], name
    same_tensors(loaded.policy.behaviour.source.state_dict(), agent.policy.behaviour.source.state_dict())
    assert type(loaded.replay_buffer) is type(agent.replay_buffer)
    assert loaded.tensorboard_log is None  # a path in a file is never followed
    same_buffer(loaded.replay_buffer, agent.replay_buffer)
    obs, _ = env.reset(seed=1)
    np.testing.assert_array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])
    if variant != "a folder called custom":
        on = Wolpertinger.load(tmp_path / "agent.zip", env=env).learn(30, reset_num_timesteps=False)
        assert on.num_timesteps == 60


def same_buffer(one, other):
    assert (one.pos, one.full) == (other.pos, other.full)
    filled = other.buffer_size if other.full else other.pos
    if not filled:
        return
    states = [np.random.RandomState(3).get_state() for _ in range(2)]
    batches = []
    for buffer, state in zip((one, other), states, strict=True):
        np.random.set_state(state)  # noqa: NPY002 - Stable-Baselines3's buffer draws from here
        batches.append(buffer._get_samples(np.arange(filled)))
    for part, expected in zip(*batches, strict=True):
        if isinstance(expected, dict):
            same_tensors(part, expected)
        elif expected is not None:
            assert torch.equal(part, expected)


@pytest.mark.parametrize("env", [TargetEnv(length=4), DictEnv(length=4)], ids=["box", "dict"])
@pytest.mark.parametrize("steps", [30, 130], ids=["part", "full"])
def test_a_replay_buffer_there_and_back(env, steps, tmp_path):
    policy = "MultiInputPolicy" if isinstance(env, DictEnv) else "MlpPolicy"
    agent, other = (small_agent(env, policy, buffer_size=100, learning_starts=1_000) for _ in range(2))
    agent.learn(steps)
    agent.save_replay_buffer(tmp_path / "buffer.pkl")  # the name Stable-Baselines3's callback gives it
    other.load_replay_buffer(tmp_path / "buffer.pkl")
    assert agent.replay_buffer.full is (steps == 130)
    same_buffer(other.replay_buffer, agent.replay_buffer)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: small_agent(make_vec_env(TargetEnv, n_envs=2), buffer_size=100),
            "saved with 1000 steps of 1 environments, this agent's has 50 of 2",
        ),
        (lambda: small_agent(TargetEnv(dim=1)), r"the replay buffer holds .*\(61, 1, 2\).*this agent's .*\(61, 1, 1\)"),
        (
            lambda: small_agent(DictEnv(), "MultiInputPolicy"),
            r"buffer holds .*this agent's .*observations\.step",
        ),
    ],
    ids=["size", "shape", "dict"],
)
def test_a_replay_buffer_of_another_agent_is_refused(agent, tmp_path, make, match):
    agent.save_replay_buffer(tmp_path / "buffer.zip")
    other = make()
    with pytest.raises(CheckpointError, match=match):
        other.load_replay_buffer(tmp_path / "buffer.zip")
    assert other.replay_buffer.pos == 0


def test_a_buffer_is_no_agent_and_an_agent_no_buffer(agent, path, tmp_path):
    with pytest.raises(CheckpointError, match=f"is a '{KIND}', a '{BUFFER_KIND}' was expected"):
        small_agent().load_replay_buffer(path)
    agent.save_replay_buffer(tmp_path / "buffer.zip")
    with pytest.raises(CheckpointError, match=f"is a '{BUFFER_KIND}', a '{KIND}' was expected"):
        Wolpertinger.load(tmp_path / "buffer.zip")


def test_a_file_of_stable_baselines3_is_refused(tmp_path):
    TD3("MlpPolicy", gym.make("Pendulum-v1"), buffer_size=10).save(tmp_path / "td3.zip")
    with pytest.raises(CheckpointError, match=r"td3\.zip holds no manifest\.json.*like one of Stable-Baselines3"):
        Wolpertinger.load(tmp_path / "td3.zip")


@pytest.mark.parametrize("version", [1, 2, 3, archive.VERSION + 1])
def test_files_of_another_version_are_refused_with_the_version_they_are_of(agent, tmp_path, monkeypatch, version):
    with monkeypatch.context() as patch:
        patch.setattr(archive, "VERSION", version)
        agent.save(tmp_path / "agent.zip")
        agent.save_replay_buffer(tmp_path / "buffer.zip")
    assert archive.VERSION == 4
    with pytest.raises(CheckpointError, match=rf"agent\.zip is of version {version}, this wolpertinger reads 4"):
        Wolpertinger.load(tmp_path / "agent.zip")
    with pytest.raises(CheckpointError, match=rf"buffer\.zip is of version {version}, this wolpertinger reads 4"):
        agent.load_replay_buffer(tmp_path / "buffer.zip")


def test_flipped_bytes_in_every_member_are_noticed(path):
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    assert members.keys() == {
        *(
            archive.MANIFEST,
            "config.json",
            "data",
            "networks.safetensors",
            "optimizers.safetensors",
            "candidates.safetensors",
        ),
        *("actions/table.json", "actions/vectors.safetensors", "last_obs.json", "last_obs.safetensors"),
    }
    for content in members.values():
        start = whole.index(content)
        for position in np.linspace(start, start + len(content) - 1, 12).astype(int):
            path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
            with pytest.raises(CheckpointError, match=r"agent\.zip.*(damaged|manifest)"):
                Wolpertinger.load(path)


@pytest.mark.parametrize("share", [0, 0.3, 0.9, 0.999])
def test_a_truncated_checkpoint_is_refused(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CheckpointError, match=r"agent\.zip is damaged or not a checkpoint"):
        Wolpertinger.load(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda files: {"networks.safetensors": b""}, r"config\.json in the file does not fit"),
        (lambda files: {**files, "config.json": b"[]"}, r"config\.json in the file does not fit"),
        (lambda files: {**files, "config.json": b"[" * 100_000}, r"config\.json in the file does not fit"),
        (lambda files: {**files, "networks.safetensors": b"\xff" * 100}, r"networks\.safetensors in the file"),
        (lambda files: {**files, "optimizers.safetensors": b""}, r"optimizers\.safetensors in the file"),
        (lambda files: {**files, "candidates.safetensors": b""}, r"candidates\.safetensors in the file"),
        (
            lambda files: {**files, "candidates.safetensors": safetensors.torch.save({"age": torch.tensor(1)})},
            r"candidates\.safetensors in the file .*NearestSource keeps no state, the file holds age",
        ),
        (
            with_config(actions={"kind": "evil", "sha256": "", "from_env": False}),
            r"config\.json in the file does not fit: KeyError: 'evil'",
        ),
        (lambda files: {**files, "actions/vectors.safetensors": bytes(8)}, "the action table in the file does not fit"),
        (lambda files: {**files, "actions/table.json": b"[" * 100_000}, "the action table in the file does not fit"),
        (
            with_config(settings={"policy_kwargs": {"activation_fn": {"class": "os.system"}}}),
            r"config\.json .*os\.system",
        ),
        (with_config(observation_space={"space": "Evil"}), r"config\.json .*Evil"),
        (with_config(counters={}), r"config\.json .*num_timesteps"),
    ],
)
def test_a_file_with_other_content_is_refused(path, change, match):
    rewrite(path, change)
    with pytest.raises(CheckpointError, match=match):
        Wolpertinger.load(path)


def test_a_file_sets_no_attribute_but_its_counters(path):
    config = json.loads(archive.read(path, KIND)["config.json"])
    rewrite(path, with_config(counters={**config["counters"], "predict": "mine"}))
    with pytest.raises(CheckpointError, match="counters: predict missing or unknown"):
        Wolpertinger.load(path)


def test_networks_of_another_size_do_not_fit(path):
    with pytest.raises(CheckpointError, match=r"(?s)networks\.safetensors in the file does not fit.*size mismatch"):
        Wolpertinger.load(path, policy_kwargs={**PLAIN_NETWORKS, "net_arch": [16, 17]})
    with pytest.raises(CheckpointError, match=r"networks\.safetensors in the file does not fit.*missing or unknown"):
        Wolpertinger.load(path, policy_kwargs={"net_arch": [17]})


def test_a_full_disk_leaves_the_last_checkpoint_and_the_agent(path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    other = small_agent(seed=9).learn(25)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(OSError, match=r"could not save to .*agent\.zip .*what was there is untouched: No space"):
            other.save(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["agent.zip"]
    assert Wolpertinger.load(path).num_timesteps == 60
    assert other.learn(25, reset_num_timesteps=False).num_timesteps == 50


def test_without_its_action_set_the_file_holds_the_hash(agent, tmp_path):
    agent.save(tmp_path / "light.zip", exclude=["actions"])
    assert not any(name.startswith("actions") for name in archive.read(tmp_path / "light.zip", KIND))
    with pytest.raises(CheckpointError, match=rf"only its SHA-256 {agent.actions.sha256}: give actions= to load"):
        Wolpertinger.load(tmp_path / "light.zip")
    with pytest.raises(CheckpointError, match=r"given action set has SHA-256 .*saved with"):
        Wolpertinger.load(tmp_path / "light.zip", actions=ActionTable(np.eye(1024, 2)))
    given = Wolpertinger.load(tmp_path / "light.zip", actions=ActionTable(agent.actions.vectors, index="Flat"))
    np.testing.assert_array_equal(actions_of(given), actions_of(agent))
    from_env = Wolpertinger.load(tmp_path / "light.zip", env=TargetEnv(length=5))
    np.testing.assert_array_equal(actions_of(from_env), actions_of(agent))
    with pytest.raises(CheckpointError, match="only its SHA-256"):
        Wolpertinger.load(tmp_path / "light.zip", env=TargetEnv(length=5, offer=False))


def test_an_agent_with_a_promised_table_goes_on_without_tuning_again(tmp_path, monkeypatch):
    def time(_, index, repeats=3):  # the scan seems slow, so that an inverted file is chosen
        return 1e6 if isinstance(index, ExactIndex) else index.effort.nprobe

    monkeypatch.setattr(tuning_run.TuningRun, "_time", time)
    monkeypatch.setattr(tune, "MAX_TUNING_QUERIES", 100)
    vectors = np.random.default_rng(0).uniform(-1, 1, (1_500, 2))
    agent = small_agent(TargetEnv(ActionTable(vectors, index="IVF16,Flat", recall=0.9), length=5)).learn(40)
    before = agent.actions.health
    assert [health.k for health in before] == [8]
    assert before[0].index.startswith("IVF16,Flat (nprobe")
    agent.save(tmp_path / "agent.zip")
    assert "actions/index-0.faiss" in archive.read(tmp_path / "agent.zip", KIND)
    monkeypatch.setattr(tune.Tuner, "tune", None)
    monkeypatch.setattr("wolpertinger.index.faiss.build", None)
    for env in (None, TargetEnv(ActionTable(vectors), length=5)):
        loaded = Wolpertinger.load(tmp_path / "agent.zip", env=env)
        assert (loaded.actions.recall, loaded.actions.sha256) == (0.9, agent.actions.sha256)
        np.testing.assert_array_equal(actions_of(loaded), actions_of(agent))
    loaded.learn(20, reset_num_timesteps=False)
    assert [(health.tunings, health.index) for health in loaded.actions.health] == [(1, before[0].index)]


@pytest.mark.parametrize("k", [8, 0.5, None])
def test_an_agent_that_lost_actions_comes_back_without_them(tmp_path, k):
    """It was an error when fewer were left than k asked for, and the networks' box was that of what was left."""
    actions = ActionTable(OBS[:10])
    agent = small_agent(TargetEnv(actions, length=5), k=k).learn(30)
    actions.remove([0, 1, 2, 3, 4, 5])
    chosen = actions_of(agent)
    agent.save(tmp_path / "agent.zip", include=["replay_buffer"])
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert loaded.actions.ids.tolist() == [6, 7, 8, 9]
    assert loaded.k <= 4
    assert set(actions_of(loaded)) <= {6, 7, 8, 9}
    if k != 0.5:  # which is half of those that are left now
        np.testing.assert_array_equal(actions_of(loaded), chosen)
    with pytest.raises(ValueError, match="k=9 is out of range for 4 actions"):
        Wolpertinger.load(tmp_path / "agent.zip", k=9)


def test_an_environment_with_other_actions_is_refused(path):
    other = ActionTable(np.random.default_rng(0).uniform(-1, 1, (1024, 2)))
    with pytest.raises(ValueError, match="their actions are not the same"):
        Wolpertinger.load(path, env=TargetEnv(other))
    with pytest.raises(ValueError, match="Action spaces do not match"):
        Wolpertinger.load(path, env=TargetEnv(points_per_axis=5))


def test_what_else_to_exclude_or_include_is_refused(agent, tmp_path):
    with pytest.raises(ValueError, match="unknown policy: exclude takes actions, replay_buffer"):
        agent.save(tmp_path / "agent.zip", exclude=["policy"])
    assert not list(tmp_path.iterdir())


class OwnExtractor(FlattenExtractor):
    pass


class OwnPolicy(WolpertingerPolicy):
    pass


class OwnBuffer(ReplayBuffer):
    pass


def test_classes_of_the_users_own_are_asked_for(tmp_path):
    policy_kwargs = {**PLAIN_NETWORKS, "features_extractor_class": OwnExtractor, "net_arch": [8]}
    agent = small_agent(policy=OwnPolicy, policy_kwargs=policy_kwargs, replay_buffer_class=OwnBuffer)
    agent.save(tmp_path / "agent.zip")
    own = {"policy_kwargs": policy_kwargs, "replay_buffer_class": OwnBuffer}
    with pytest.raises(CheckpointError, match="saved with replay_buffer_class, policy_kwargs of the user's own"):
        Wolpertinger.load(tmp_path / "agent.zip")
    with pytest.raises(CheckpointError, match="a policy class of the user's own: give policy= to load"):
        Wolpertinger.load(tmp_path / "agent.zip", **own)
    loaded = Wolpertinger.load(tmp_path / "agent.zip", policy=OwnPolicy, **own)
    assert isinstance(loaded.actor.features_extractor, OwnExtractor)
    np.testing.assert_array_equal(actions_of(loaded), actions_of(agent))


def test_n_steps_can_be_changed_on_loading(tmp_path):
    small_agent(n_steps=3, gamma=0.9).save(tmp_path / "agent.zip")
    assert Wolpertinger.load(tmp_path / "agent.zip", gamma=0.5).replay_buffer.gamma == 0.5
    assert type(Wolpertinger.load(tmp_path / "agent.zip", n_steps=1).replay_buffer) is ReplayBuffer


def test_loaded_twice_it_is_the_same_run(path):
    runs = [Wolpertinger.load(path, env=TargetEnv(length=5)).learn(30, reset_num_timesteps=False) for _ in range(2)]
    same_tensors(runs[0].policy.state_dict(), runs[1].policy.state_dict())


def test_loading_leaves_the_hosts_random_numbers_alone(path):
    np.random.seed(5)  # noqa: NPY002 - the numbers that a host may draw
    torch.manual_seed(5)
    random.seed(5)
    expected = np.random.random(3).tolist(), torch.rand(3).tolist(), random.random()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    random.seed(5)
    Wolpertinger.load(path, env=TargetEnv(length=5))
    assert (np.random.random(3).tolist(), torch.rand(3).tolist(), random.random()) == expected  # noqa: NPY002


def test_load_takes_what_stable_baselines3_takes(tmp_path, capsys):
    agent = small_agent(TargetEnv(), k=2)
    agent.save(tmp_path / "agent")
    loaded = Wolpertinger.load(tmp_path / "agent", None, "cpu", {"gamma": 0.5}, True)
    assert loaded.gamma == 0.5
    assert "PyTorch" in capsys.readouterr().out
    with pytest.raises(CheckpointError, match="force_reset=False: the agent was saved before it had seen its env"):
        Wolpertinger.load(tmp_path / "agent", force_reset=False)


def test_an_agent_with_a_share_chooses_among_as_many_after_actions_went_and_it_was_loaded(tmp_path):
    env = TargetEnv(length=5)
    agent = small_agent(env, actions=ActionTable(env.set.vectors), k=0.5)
    count = agent.k
    agent.actions.remove(np.arange(agent.actions.n - 3))
    assert agent.k == 3 < count
    agent.save(tmp_path / "agent.zip")
    assert Wolpertinger.load(tmp_path / "agent.zip").k == 3


def test_an_agent_whose_actions_grew_is_loaded_with_them(tmp_path):
    env = TargetEnv(length=5)
    agent = small_agent(env, actions=ActionTable(env.set.vectors), k=4)
    new = agent.actions.add(env.set.vectors[:2])
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert loaded.actions.n == agent.actions.n == new[-1] + 1
    np.testing.assert_array_equal(loaded.predict(OBS)[0], agent.predict(OBS)[0])
