"""What Stable-Baselines3's base class lacks for action sets: fitting environments, files without pickle."""

import io
import pathlib
from collections.abc import Iterable
from typing import Any, Self

import gymnasium as gym
import torch
from stable_baselines3.common.base_class import maybe_make_env
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import LinearSchedule, get_system_info
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from wolpertinger.actions import ActionSet
from wolpertinger.agent import buffer_files, checkpoint, validation
from wolpertinger.agent.exploration import Exploration
from wolpertinger.agent.policies import WolpertingerPolicy
from wolpertinger.agent.restrictions import Restrictions
from wolpertinger.envs.allowed_info import AllowedInInfo, says_allowed
from wolpertinger.envs.sb3_vec_env import GymnasiumVecEnv


class ActionSetAlgorithm(OffPolicyAlgorithm):
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
    restrictions: Restrictions

    @staticmethod
    def _wrap_env(env: Any, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        env = maybe_make_env(env, verbose)
        if isinstance(env, gym.Env) and says_allowed(env):
            env = AllowedInInfo(env)
        if isinstance(env, gym.vector.VectorEnv):
            env = VecMonitor(GymnasiumVecEnv(env))
        validation.require_discrete(env.action_space)
        return OffPolicyAlgorithm._wrap_env(env, verbose, monitor_wrapper)

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Train in another environment from now on: one with the same spaces and the same actions."""
        wrapped = self._wrap_env(env, self.verbose)
        validation.match_actions(self.actions, wrapped.action_space, wrapped)
        validation.require_guidance(self.exploration, wrapped)
        if self._actions_from_env:
            validation.require_same_actions(self.actions, wrapped)
        validation.require_fixed_observations(self._arguments["critic"], wrapped)
        super().set_env(wrapped, force_reset)

    def _setup_lr_schedule(self) -> None:
        super()._setup_lr_schedule()
        if self.final_learning_rate is not None:
            self.lr_schedule = LinearSchedule(self.lr_schedule(1), self.final_learning_rate, end_fraction=1.0)

    def save(
        self,
        path: str | pathlib.Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Write the agent to one zip of safetensors and JSON; `exclude=["actions"]` stores only the set's hash."""
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
        """Fill the replay buffer from a file that `save_replay_buffer` wrote."""
        buffer_files.load_buffer(self.replay_buffer, path, self.actions)

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
        """An agent from a file that `save` wrote; it runs nothing of it.

        `custom_objects` and `settings` replace what the agent was saved with. Files hold no environment's state, so
        the next `learn` always begins with a reset.
        """
        if not force_reset:
            raise ValueError("force_reset=False: a file holds no environment's state to go on from; leave it out")
        if print_system_info:
            get_system_info()
        settings = {**(custom_objects or {}), **settings}
        return checkpoint.load(cls, path, env=env, device=device, actions=actions, settings=settings)
