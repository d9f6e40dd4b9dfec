"""An environment of the user's own by its id, with vectors of its actions from a file."""

import os
import sys
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

from wolpertinger.actions import ActionTable
from wolpertinger.settings import check_kind


class WithActions(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """An environment that offers an action set as `actions`."""

    def __init__(self, env: gym.Env, actions: ActionTable) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, actions=actions)
        super().__init__(env)
        self.actions = actions


def make(*, env_id: str, vectors: str | None = None, options: dict[str, Any] | None = None, **rest: Any) -> gym.Env:
    """Entry point of `wolpertinger/Own-v0`: the environment of that id, module:Name-v0 from the working directory too.

    :param vectors: a .npy file with a vector for each of its actions; None: what the environment offers, if it does.
    :param options: the environment's own.
    """
    check_kind("env_id", env_id, str, "the id of an environment, such as my_module:MyEnv-v0")
    here = os.getcwd()
    if ":" in env_id and here not in sys.path:  # as `python -m` would find the module
        sys.path.insert(0, here)
    env = gym.make(env_id, **(options or {}), **rest)
    return env if vectors is None else WithActions(env, _read(vectors, os.stat(vectors).st_mtime_ns))


@cache
def _read(path: str, changed: int) -> ActionTable:
    """One table for all copies of the environment."""
    return ActionTable(np.load(path, mmap_mode="r", allow_pickle=False))
