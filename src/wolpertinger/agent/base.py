"""What Stable-Baselines3's base class lacks for action sets: fitting environments, files without pickle."""

import io
import pathlib
from collections.abc import Iterable
from inspect import signature
from typing import Any, ClassVar, Self

import gymnasium as gym
import torch
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import LinearSchedule, get_system_info
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from wolpertinger.actions import ActionSet
from wolpertinger.agent import buffer_files, checkpoint, validation
from wolpertinger.agent.arguments import check_device
from wolpertinger.agent.diagnostics import Diagnostics
from wolpertinger.agent.exploration import Exploration, Explorer
from wolpertinger.agent.faults import Faults, GuardedBuffer, require_finite_start
from wolpertinger.agent.growing import GrowingSpace
from wolpertinger.agent.policies import WolpertingerPolicy
from wolpertinger.agent.restrictions import Restrictions
from wolpertinger.agent.training_state import set_random_state, set_training_state
from wolpertinger.archive import readable
from wolpertinger.envs.allowed_info import AllowedInInfo, says_allowed
from wolpertinger.envs.sb3_vec_env import GymnasiumVecEnv
from wolpertinger.learners import Learner
from wolpertinger.settings import check_flag, check_keywords, check_kind


class ActionSetAlgorithm(GrowingSpace, OffPolicyAlgorithm):
    """An off-policy algorithm over an action set, in any kind of environment, saved without pickle."""

    policy: WolpertingerPolicy
    actions: ActionSet
    exploration: Exploration
    final_learning_rate: float | None
    replay_buffer: ReplayBuffer
    _arguments: dict[str, Any]
    """The constructor's, by name, as they were given."""
    _actions_from_env: bool
    k: int
    learner: Learner
    explorer: Explorer
    diagnostics: Diagnostics
    faults: Faults
    on_bad_transition: str
    acts_elsewhere: ClassVar[bool] = False
    """Whether its transitions come from others' environments, of which a checkpoint knows nothing."""
    _rows_stored = 0
    """In the replay buffer, ever; what is beyond its size is overwritten. -1: unknown."""
    _resume_from: dict[str, Any] | None = None
    """The state of a training that was loaded and that the next `learn` goes on from."""
    _seeded_random: dict[str, Any] | None = None
    """The global random numbers by the seed of a loaded agent, which are the host's until `learn`."""
    restrictions: Restrictions

    @staticmethod
    def _wrap_env(env: Any, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        env = validation.make_env(env, verbose)
        if isinstance(env, gym.Env) and says_allowed(env):
            env = AllowedInInfo(env)
        if isinstance(env, gym.vector.VectorEnv):
            env = VecMonitor(GymnasiumVecEnv(env))
        validation.require_discrete(env.action_space)
        validation.require_observations(env.observation_space)
        return OffPolicyAlgorithm._wrap_env(env, verbose, monitor_wrapper)

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Train in another environment from now on: one with the same spaces and the same actions."""
        wrapped = self._wrap_env(env, self.verbose)
        validation.match_actions(self.actions, wrapped.action_space)
        validation.require_guidance(self.exploration, wrapped)
        if self._actions_from_env:
            validation.require_same_actions(self.actions, wrapped)
        validation.require_fixed_observations(self._arguments["critic"], wrapped)
        validation.require_skippable(self.on_bad_transition, wrapped, self.optimize_memory_usage)
        super().set_env(wrapped, force_reset)
        if self.replay_buffer is None:
            self.replay_buffer = self._make_buffer()

    def _setup_lr_schedule(self) -> None:
        super()._setup_lr_schedule()
        if self.final_learning_rate is not None:
            self.lr_schedule = LinearSchedule(self.lr_schedule(1), self.final_learning_rate, end_fraction=1.0)

    def _setup_learn(self, *args: Any, **kwargs: Any) -> tuple[int, BaseCallback]:
        found = super()._setup_learn(*args, **kwargs)
        require_finite_start(self._last_obs)
        return found

    def _go_on(self, reset_num_timesteps: bool) -> None:
        """Put a loaded training state in place, environments and global random numbers included."""
        seeded, self._seeded_random = self._seeded_random, None
        if seeded is not None:
            set_random_state(seeded)
        state, self._resume_from = self._resume_from, None
        if state is not None and not reset_num_timesteps:
            with readable(checkpoint.TRAINING):
                set_training_state(self, state)

    def _store_transition(
        self, replay_buffer: ReplayBuffer, buffer_action: Any, new_obs: Any, reward: Any, dones: Any, infos: Any
    ) -> None:
        guarded, last = GuardedBuffer(self, replay_buffer, new_obs), self._last_obs
        super()._store_transition(guarded, buffer_action, new_obs, reward, dones, infos)  # type: ignore[arg-type]
        self._last_obs = guarded.observed(last)
        self.explorer.reset(dones)

    def dump_logs(self) -> None:
        self.diagnostics.record(self.logger, self.policy.behaviour, self.actions)
        self.faults.record(self.logger)
        super().dump_logs()

    def save(
        self,
        path: str | pathlib.Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Write the agent to one zip of safetensors and JSON; `exclude=["actions"]` stores only the set's hash,
        `exclude=["verbose"]` or another setting of the training leaves that at the default.

        `include=["replay_buffer"]` adds the buffer; `include=["training"]` also all else that training goes on from: a
        loaded agent's `learn(..., reset_num_timesteps=False)` is then the same, to the bit, as if it had never stopped.
        """
        checkpoint.save(self, path, exclude=exclude, include=include)

    def set_parameters(
        self, load_path_or_dict: Any, exact_match: bool = True, device: torch.device | str = "auto"
    ) -> None:
        """Put parameters from a dict of `get_parameters` in place; a file is loaded with `load`."""
        if not isinstance(load_path_or_dict, dict):
            raise TypeError(f"{load_path_or_dict!r} is not a dict of parameters: load a file with Wolpertinger.load")
        super().set_parameters(load_path_or_dict, exact_match, device)

    def save_replay_buffer(self, path: str | pathlib.Path | io.BufferedIOBase) -> None:
        """Write the replay buffer in the same form as the agent: safetensors, JSON, checksums."""
        buffer_files.save_buffer(self.replay_buffer, path)

    def load_replay_buffer(self, path: str | pathlib.Path | io.BufferedIOBase, truncate_last_traj: bool = True) -> None:
        """Fill the replay buffer from a file that `save_replay_buffer` wrote, with the newest of it if it has more.

        `truncate_last_traj` is for HerReplayBuffer: the episodes that were going on have ended.
        """
        if self.replay_buffer is None:
            self.replay_buffer = self._make_buffer()
        buffer_files.load_buffer(self.replay_buffer, path, self.actions)
        self._rows_stored = -1
        if truncate_last_traj:
            buffer_files.end_episodes(self.replay_buffer)

    def _make_buffer(self) -> ReplayBuffer:
        """An empty replay buffer, as the base class makes one."""
        made, kwargs = self.replay_buffer_class, dict(self.replay_buffer_kwargs)
        assert made is not None
        if issubclass(made, HerReplayBuffer):
            if self.env is None:
                raise ValueError("HerReplayBuffer asks the environment for rewards: give one by set_env(env)")
            kwargs["env"] = self.env
        kwargs |= {"n_envs": self.n_envs, "optimize_memory_usage": self.optimize_memory_usage}
        return made(self.buffer_size, self.observation_space, self.action_space, device=self.device, **kwargs)

    @classmethod
    def load(
        cls,
        path: str | pathlib.Path | io.BufferedIOBase,
        env: GymEnv | gym.vector.VectorEnv | None = None,
        device: torch.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        *,
        actions: ActionSet | None = None,
        **settings: Any,
    ) -> Self:
        """An agent from a file that `save` wrote, or the newest of a folder of checkpoints; it runs nothing of it.

        `custom_objects` and `settings` replace what the agent was saved with. `actions`: a table that has got further
        rows since, say. The next `learn` begins with a reset, but for reset_num_timesteps=False and a file with the
        state of training (`include=["training"]`, or a run's), or force_reset=False: then the environment is where it
        was when the agent was saved. The host's global random numbers stay as they are until then.
        """
        check_flag("force_reset", force_reset)
        check_flag("print_system_info", print_system_info)
        check_kind("actions", actions, ActionSet | None, "an action set, such as ActionTable(vectors), or None")
        if print_system_info:
            get_system_info()
        check_kind("custom_objects", custom_objects, dict | None, "a dict of settings by name, or None")
        known = signature(cls).parameters  # Stable-Baselines3 ignores what is not in the file
        settings = {**{name: value for name, value in (custom_objects or {}).items() if name in known}, **settings}
        check_keywords("settings", settings, cls, without={"env", "actions", "device", "_init_setup_model"})
        check_device(device)
        given = {"env": env, "actions": actions, "settings": settings, "force_reset": force_reset}
        return checkpoint.load(cls, path, device=device, **given)  # type: ignore[arg-type]
