"""Where the agent gets from what its states allow: a function of the observation, or the environments."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv

from wolpertinger.actions import ActionSet, Allowed, Levels, read_allowed
from wolpertinger.envs.allowed_info import KEY, METHODS
from wolpertinger.settings import show

AllowedFunction = Callable[[Any], Any]
"""Observations of a batch of states, not normalised, become what each of them allows."""
Infos = list[dict[str, Any]]


class Restrictions:
    """What the environments' current states allow, and what the last ones of their episodes did."""

    def __init__(self, actions: ActionSet, function: AllowedFunction | None) -> None:
        if function is not None and not callable(function):
            raise TypeError(
                f"allowed={show(function)}: give a function of a batch of observations that returns what each allows"
            )
        self.actions, self.function = actions, function
        self.from_env = False
        """Whether the environments say what is allowed."""
        self.has_begun = False
        self._method: str | None = None
        self._now: Allowed | None = None
        self._has_warned = False

    @property
    def is_used(self) -> bool:
        """Whether states say what they allow."""
        return self.from_env or self.function is not None

    def begin(self, env: VecEnv, *, is_reset: bool = True) -> None:
        """Training begins in these environments: find out who says what is allowed, and ask."""
        self.has_begun, expected = True, self.from_env
        if self.function is not None:
            return
        infos = env.unwrapped.reset_infos if is_reset else [{}] * env.num_envs  # those of a reset long ago say nothing
        self._method = None
        if not all(KEY in info for info in infos):
            self._method = next((name for name in METHODS if env.has_attr(name)), None)
        self.from_env = self._method is not None or all(KEY in info for info in infos)
        if expected and not self.from_env:
            raise ValueError(
                "the agent learned where environments said what they allow, and these do not: give them a method "
                'allowed_actions(), which, unlike info["allowed_actions"], can be asked when a training is resumed'
            )
        if not self.from_env and self.actions.has_offered_vectors:
            raise ValueError(
                f"{self.actions!r}: nobody offers them. Give the environment a method allowed_actions() that returns "
                '(ids, vectors), or info["allowed_actions"], or give the agent allowed=, a function of the observation'
            )
        self._now = self._ask(env, infos, 0) if self.from_env else None

    def method_of(self, env: VecEnv) -> str:
        """The method by which environments say what they allow."""
        name = next((name for name in METHODS if env.has_attr(name)), None)
        if name is None:
            raise ValueError(f"the environment has none of the methods {', '.join(METHODS)}: give it one of them")
        return name

    def now(self, obs: Any, step: int) -> Allowed | None:
        """What the current states allow, whose observations are not normalised."""
        if self.function is not None:
            self._now = self.of(obs, lambda row: f"environment {row} at step {step:,}")
        return self._now

    def vectors_of(self, executed: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | None:
        """Of actions that were executed in the current states (batch, dim), where vectors come with the state."""
        if not self.actions.has_offered_vectors:
            return None
        assert self._now is not None
        assert self._now.own_vectors is not None
        offered = zip(self._now.states, self._now.own_vectors, executed, strict=True)
        return np.stack([vectors[np.searchsorted(ids, action)] for ids, vectors, action in offered])

    def of(self, obs: Any, where: Callable[[int], str] = "state {}".format) -> Allowed:
        """What the function says of a batch of observations."""
        assert self.function is not None
        count = len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
        return self.read(self.function(obs), count, where)

    def read(self, given: Any, count: int, where: Callable[[int], str] = "state {}".format) -> Allowed:
        """What a user says is allowed in a batch of so many states."""
        is_list = hasattr(given, "__len__") and not isinstance(given, str | bytes | Mapping)
        is_list = is_list and getattr(given, "ndim", 1) > 0
        if not is_list or len(given) != count:
            size = f"{len(given)} states" if is_list else show(given)
            raise ValueError(f"what is allowed is given for {size}: give one entry for each of {count}")
        return read_allowed(given, self.actions, where)

    def step(
        self, env: VecEnv, dones: npt.NDArray[np.bool_], infos: Infos, executed: npt.NDArray[np.int64], step: int
    ) -> Allowed:
        """The environments took a step: what the states allow in which they arrived, the last ones of ended episodes
        included, for which any action stands where the episode terminated.

        Where an episode was cut and nobody says what its last state allowed, `infos` says that it terminated.
        """
        vectors, begun = self.vectors_of(executed), env.unwrapped.reset_infos
        current = [begun[row] if dones[row] else info for row, info in enumerate(infos)]
        self._now = arrived = self._ask(env, current, step)
        if not dones.any():
            return arrived
        states = [arrived.rows(slice(row, row + 1)) for row in range(len(dones))]
        for row in np.flatnonzero(dones).tolist():
            last = infos[row].get(KEY) if infos[row].get("TimeLimit.truncated", False) else None
            if last is not None and _allows_something(last):
                name = f"environment {row}, the last state of its episode, at step {step:,}"
                states[row] = self.read([last], 1, lambda _, name=name: name)  # type: ignore[misc]
            else:
                self._terminate(infos, row, is_known=last is not None)
                own = slice(row, row + 1)
                states[row] = arrived.only(executed[own], None if vectors is None else vectors[own])
        packed = [own.pack()[0] for own in states]
        own_vectors = [own.own_vectors[0] for own in states if own.own_vectors is not None]
        return arrived.unpack(packed, own_vectors or None)

    def _ask(self, env: VecEnv, infos: Infos, step: int) -> Allowed:
        """What the environments say of their current states."""
        if self._method is not None:
            given = env.env_method(self._method)
        elif missing := [row for row, info in enumerate(infos) if KEY not in info]:
            raise ValueError(f'environment {missing[0]} at step {step:,}: its info has no "{KEY}", as it had at first')
        else:
            given = [info[KEY] for info in infos]
        return self.read(given, env.num_envs, lambda row: f"environment {row} at step {step:,}")

    def _terminate(self, infos: Infos, row: int, is_known: bool) -> None:
        if not infos[row].get("TimeLimit.truncated", False):
            return
        infos[row] = {**infos[row], "TimeLimit.truncated": False}
        if not (is_known or self._has_warned):
            warnings.warn(
                "an episode was cut, and nobody says what its last state allows: it is taken as terminated. Let the "
                'environment put that into info["allowed_actions"], or give the agent allowed=, a function',
                stacklevel=2,
            )
            self._has_warned = True


def _allows_something(given: Any) -> bool:
    """Whether the last state of an episode, which may be over, allows any action."""
    if isinstance(given, Levels):
        return all(np.size(levels) for levels in given.of)
    ids = np.asarray(given[0] if isinstance(given, tuple) else given)
    return bool(ids.any() if ids.dtype == np.bool_ else ids.size)
