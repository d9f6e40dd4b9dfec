"""Adapter from Gymnasium's vector environments to Stable-Baselines3's `VecEnv`."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from wolpertinger.envs.allowed_info import KEY


class GymnasiumVecEnv(VecEnv):
    """A Gymnasium vector environment as a Stable-Baselines3 `VecEnv`: one call steps all environments.

    Infos are filled only where an episode ended, and with what states allow: nobody reads others.
    """

    def __init__(self, env: VectorEnv) -> None:
        mode = env.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ValueError(
                f"the vector environment resets in mode {mode}: Stable-Baselines3 needs SAME_STEP. With "
                'gymnasium.make_vec pass vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}'
            )
        self.env = env
        self._actions: Any = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> VecEnvObs:
        seeds: Any = None if self._seeds[0] is None else list(self._seeds)
        obs, info = self.env.reset(seed=seeds, options=self._options[0] or None)
        self.reset_infos = [_allowed_of(info, i) for i in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, terminated, truncated, info = self.env.step(self._actions)
        done = terminated | truncated
        infos = [_allowed_of(info, i) for i in range(self.num_envs)]
        over = done.nonzero()[0]
        if over.size:
            for i in over.tolist():
                self.reset_infos[i] = infos[i]  # of the next episode's first state
            timed_out = (truncated & ~terminated)[over].tolist()  # not a terminal state: the target must bootstrap
            for i, last, cut in zip(over.tolist(), info["final_obs"][over], timed_out, strict=True):
                infos[i] = {"terminal_observation": last, "TimeLimit.truncated": cut}
            if "final_info" in info:
                for i in over.tolist():
                    infos[i] |= _info_of(info["final_info"], i)
        return obs, np.asarray(rewards, dtype=np.float32), done, infos

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of the batch, or of each of Gymnasium's separate environments."""
        places, env = self._indices(indices), self.env.unwrapped
        if isinstance(env, SyncVectorEnv | AsyncVectorEnv):
            answers = env.get_attr(attr_name)
            return [answers[i] for i in places]
        return [getattr(env, attr_name)] * len(places)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        if len(self._indices(indices)) != self.num_envs:
            raise ValueError(f"indices={indices!r}: an attribute is set for all {self.num_envs} or for none")
        env = self.env.unwrapped
        if isinstance(env, SyncVectorEnv | AsyncVectorEnv):
            env.set_attr(attr_name, [value] * self.num_envs)
        else:
            setattr(env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        """Call a method that answers for all environments at once, and return the answers at `indices`."""
        env = self.env.unwrapped
        if isinstance(env, SyncVectorEnv | AsyncVectorEnv):
            answers = env.call(method_name, *args, **kwargs)
        else:
            answers = getattr(env, method_name)(*args, **kwargs)
        return [answers[i] for i in self._indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        return [False] * len(self._indices(indices))

    def _indices(self, indices: VecEnvIndices) -> Sequence[int]:
        return list(self._get_indices(indices))


def _allowed_of(infos: dict[str, Any], i: int) -> dict[str, Any]:
    """Return what the state of environment i allows, if its info says so."""
    return {KEY: infos[KEY][i]} if KEY in infos else {}


def _info_of(infos: dict[str, Any], i: int) -> dict[str, Any]:
    """Return the info of environment i from Gymnasium's `infos`: arrays by key, with a mask under "_key"."""
    present = {name: value for name, value in infos.items() if f"_{name}" in infos and infos[f"_{name}"][i]}
    return {name: _info_of(value, i) if isinstance(value, dict) else value[i] for name, value in present.items()}
