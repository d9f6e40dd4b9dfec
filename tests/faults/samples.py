"""One file of each kind that the package writes, how it is read, and a fingerprint of what was read."""

import atexit
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv

from tests.faults.tasks import digest
from wolpertinger import ActionIds, ActionProduct, ActionTable, Slate, Wolpertinger
from wolpertinger.actions import table
from wolpertinger.agent import buffer_files, checkpoint, policy_files
from wolpertinger.agent.buffer_files import buffer_arrays
from wolpertinger.agent.checkpoint_folder import CheckpointFolder
from wolpertinger.agent.policies import WolpertingerPolicy
from wolpertinger.agent.trees import pack
from wolpertinger.envs.state import Restorable

VECTORS = np.random.default_rng(0).uniform(-1, 1, (1_200, 4)).astype(np.float32)
STEPS = 40


class PointEnv(Restorable, gym.Env):
    """A point to come close to; its state can be kept."""

    state_names = ("target", "steps")

    def __init__(self, actions: Any, obs: str = "box", allows: bool = False) -> None:
        self.actions, self.action_space, self.obs = actions, actions.space, obs
        box = spaces.Box(-2, 2, (3,), np.float32)
        self.observation_space = {"box": box, "dict": spaces.Dict({"at": box, "step": spaces.Discrete(8)})}[obs]
        self.target, self.steps = np.zeros(3, np.float32), 0
        if allows:
            self.allowed_actions = lambda: np.arange(1 + self.steps, 20 + self.steps)

    def _observe(self) -> Any:
        return self.target.copy() if self.obs == "box" else {"at": self.target.copy(), "step": self.steps % 8}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.target, self.steps = self.np_random.uniform(-1, 1, 3).astype(np.float32), 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.target = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self._observe(), -float(np.abs(self.target).sum()), self.steps == 7, False, {}


class BitsEnv(Restorable, BitFlippingEnv):
    """Stable-Baselines3's environment with goals; its state can be kept."""

    state_names = ("state", "desired_goal", "current_step")

    def __init__(self) -> None:
        super().__init__(n_bits=4, continuous=False)


def _tuned() -> ActionTable:
    actions = ActionTable(VECTORS, recall=0.9)
    actions.tune(VECTORS[:200] + np.float32(0.01), k=8)
    return actions


ENVS: dict[str, Callable[[], Any]] = {
    "table": lambda: PointEnv(ActionTable(VECTORS[:60])),
    "allowed": lambda: PointEnv(ActionTable(VECTORS[:60]), allows=True),
    "ids": lambda: PointEnv(ActionIds(30), "dict"),
    "product": lambda: PointEnv(ActionProduct([[0.0, 1.0, 3.0], np.eye(2)], space="multidiscrete")),
    "slate": lambda: PointEnv(Slate(ActionTable(VECTORS[:30]), 3)),
    "goals": BitsEnv,
}
POLICIES = {"ids": "MultiInputPolicy", "goals": "MultiInputPolicy"}


def new_agent(name: str) -> Wolpertinger:
    small = {"learning_starts": 10, "batch_size": 8, "buffer_size": 200, "seed": 0, "device": "cpu"}
    networks = {"net_arch": [8, 8]}
    if name == "goals":
        small |= {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": {"n_sampled_goal": 2}}
    return Wolpertinger(POLICIES.get(name, "MlpPolicy"), ENVS[name](), policy_kwargs=networks, **small)


@dataclass(frozen=True)
class Sample:
    """A kind of file: what its archive calls itself, and how it is read and used."""

    kind: str
    load: Callable[[Any], Any]
    use: Callable[[Any], None]


def _load_agent(name: str) -> Callable[[Any], Any]:
    return lambda source: Wolpertinger.load(source, env=ENVS[name](), device="cpu")


def _load_table(source: Any) -> ActionTable:
    return ActionTable.load(source)


def _load_buffer(source: Any) -> Wolpertinger:
    agent = new_agent("table")
    agent.load_replay_buffer(source)
    return agent


def use_policy(policy: Any) -> None:
    """Predict, and save it again."""
    policy.predict(policy.observation_space.sample())
    policy.save(io.BytesIO())


def use_agent(agent: Wolpertinger) -> None:
    """Predict and learn on; weights stay finite."""
    for _ in range(3):
        agent.predict(agent.observation_space.sample(), allowed=_allowed(agent))
    agent.learn(STEPS, reset_num_timesteps=False)
    assert all(torch.isfinite(tensor).all() for tensor in agent.policy.state_dict().values())
    agent.save(io.BytesIO())


def _allowed(agent: Wolpertinger) -> Any:
    return np.arange(5) if agent.restrictions.from_env else None


def use_table(actions: ActionTable) -> None:
    for k in (1, 8):
        found = actions.nearest(VECTORS[:50, : actions.dim], min(k, actions.n))
        assert actions.holds(found).all()
    actions.add(np.ones((3, actions.dim), np.float32))
    actions.nearest(VECTORS[:5, : actions.dim], 1)


SAMPLES: dict[str, Sample] = {
    **{name: Sample(checkpoint.KIND, _load_agent(name), use_agent) for name in ENVS},
    "run": Sample(checkpoint.KIND, _load_agent("allowed"), use_agent),
    "buffer": Sample(buffer_files.KIND, _load_buffer, use_agent),
    "policy": Sample(policy_files.KIND, WolpertingerPolicy.load, use_policy),
    **{name: Sample(table.KIND, _load_table, use_table) for name in ("tuned", "IVF8,Flat", "IVF8,PQ4x4fs", "HNSW8")},
}
"""`run` is a checkpoint in a folder, with the replay buffer in a file beside it."""


@cache
def sample_folder() -> Path:
    """All kinds of files, each in a folder of its own; made once a process."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    torch.set_num_threads(1)
    for name in SAMPLES:
        (folder / name).mkdir(parents=True)
    for name in ENVS:
        agent = new_agent(name).learn(STEPS)
        agent.save(folder / name / "000000.zip", include=["training"])
        if name == "table":
            agent.save_replay_buffer(folder / "buffer" / "000000.zip")
            agent.policy.save(folder / "policy" / "000000.zip")
        if name == "allowed":
            CheckpointFolder(folder / "run").save(agent)
    _tuned().save(folder / "tuned" / "000000.zip")
    for recipe in ("IVF8,Flat", "IVF8,PQ4x4fs", "HNSW8"):
        ActionTable(VECTORS, index=recipe).save(folder / recipe / "000000.zip")
    prints = {name: fingerprint(SAMPLES[name].load(folder / name / "000000.zip")) for name in SAMPLES}
    (folder / "fingerprints.json").write_text(json.dumps(prints))
    return folder


def fingerprint(found: Any) -> str:
    """Of everything that a file holds."""
    if isinstance(found, ActionTable):
        nearest = found.nearest(VECTORS[:50, : found.dim], 8)  # the k that one is tuned for
        return digest(found.sha256, repr(found), nearest.tobytes(), [health.index for health in found.health])
    if isinstance(found, WolpertingerPolicy):
        tensors = found.state_dict().values()
        return digest(found.actions.sha256, repr(found.made_with), *(tensor.numpy().tobytes() for tensor in tensors))
    state, arrays = pack(found._resume_from or {})
    moments = [found.actor.optimizer.state_dict(), found.critic.optimizer.state_dict()]
    counters = [getattr(found, name) for name in checkpoint.COUNTERS]
    buffer = buffer_arrays(found.replay_buffer)
    return digest(
        found.actions.sha256,
        repr({name: value for name, value in found._arguments.items() if name != "replay_buffer_kwargs"}),
        repr([*counters, found.replay_buffer.pos, found.replay_buffer.full, found.n_envs, found.k]),
        *(tensor.numpy().tobytes() for tensor in found.policy.state_dict().values()),
        *(torch.as_tensor(value).numpy().tobytes() for part in moments for _, own in sorted(part["state"].items())
          for _, value in sorted(own.items())),
        *(array.tobytes() for array in (*buffer.values(), *arrays.values())),
        repr(state),
    )  # fmt: skip


def copy_of(folder: Path, name: str, place: Path) -> list[Path]:
    """A copy of a sample's files, the archive first."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder / name, place)
    return sorted(place.iterdir())


def warm_up(folder: Path) -> None:
    """Read one of each, so that what a process loads once counts in no try."""
    for name, sample in SAMPLES.items():
        sample.load(folder / name / "000000.zip")
