"""Discretise the actions of any continuous environment: i levels in each of d dimensions, i**d actions."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from wolpertinger.actions import ActionProduct
from wolpertinger.actions.factor import even_levels
from wolpertinger.index import check_ids
from wolpertinger.settings import check_flag, check_kind, check_number, is_number, show


def discretize(env: gym.Env, levels: int | Sequence[int], *, multidiscrete: bool | None = None) -> gym.Env:
    """Give `env`, whose actions are a bounded Box, evenly spaced levels from low to high in every dimension.

    `levels` is one number for all dimensions or one for each. Actions are ids (`Discrete`), or digits
    (`MultiDiscrete`) where ids would not fit 63 bits; `multidiscrete` chooses. The result has the set as `actions`.
    """
    check_kind("env", env, gym.Env | VectorEnv, "an environment whose actions are a bounded Box")
    if isinstance(env, VectorEnv):
        raise TypeError(f"{env} is a vector environment: discretise the single environment before it is vectorised")
    return Discretized(env, levels, multidiscrete=multidiscrete)


def make(*, env_id: str, levels: int | Sequence[int], multidiscrete: bool | None = None, **options: Any) -> gym.Env:
    """Entry point of `wolpertinger/Discretized-v0`: the environment of that id in levels; `options` are its own."""
    return discretize(gym.make(env_id, **options), levels, multidiscrete=multidiscrete)


class Discretized(gym.ActionWrapper, gym.utils.RecordConstructorArgs):
    """An environment whose actions are members of `actions`; made by `discretize`."""

    def __init__(self, env: gym.Env, levels: int | Sequence[int], *, multidiscrete: bool | None = None) -> None:
        self._box = _require_bounded_box(env.action_space)
        counts = _count_levels(levels, self._box)
        check_flag("multidiscrete", multidiscrete, optional=True)
        gym.utils.RecordConstructorArgs.__init__(self, levels=levels, multidiscrete=multidiscrete)
        super().__init__(env)
        low, high = (bound.ravel().astype(np.float64) for bound in (self._box.low, self._box.high))
        factors = [even_levels(*ends) for ends in zip(low, high, counts, strict=True)]
        space = None if multidiscrete is None else "multidiscrete" if multidiscrete else "discrete"
        self.actions = ActionProduct(factors, space=space)  # type: ignore[arg-type]
        self.action_space = self.actions.space
        self._levels = self.actions.levels

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        check_number("seed", seed, whole=True, optional=True)
        return super().reset(seed=seed, options=options)

    def action(self, action: Any) -> npt.NDArray[Any]:
        """Return the inner environment's action: one level per dimension, in the shape and type of its Box."""
        if isinstance(self.action_space, spaces.MultiDiscrete):
            digits = check_ids(action, self.action_space.nvec)
        else:
            digits = self.actions.digits(action)
        # Not the set's vectors: they are float32, which may lie outside the bounds of a float64 Box.
        chosen = [levels[digit] for levels, digit in zip(self._levels, digits, strict=True)]
        return np.array(chosen, dtype=self._box.dtype).reshape(self._box.shape)


def _require_bounded_box(space: spaces.Space) -> spaces.Box:
    accepted = "a Box of floats with finite bounds can be discretised"
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise ValueError(f"the environment's actions are discrete already, {space}: {accepted}")
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise ValueError(f"the environment's actions are {space}: {accepted}")
    if not space.is_bounded():
        raise ValueError(f"the environment's actions have infinite bounds, {space}: {accepted}")
    return space


def _count_levels(levels: int | Sequence[int], box: spaces.Box) -> list[int]:
    size = int(np.prod(box.shape))
    given: Any = levels
    is_list = isinstance(given, list | tuple) or (type(given) is np.ndarray and given.ndim == 1)
    counts = list(given) if is_list else [given] * size
    if not all(is_number(count, whole=True) and count >= 2 for count in counts):
        raise ValueError(f"levels={show(levels)}: give whole numbers of at least 2, as both bounds are levels")
    if len(counts) != size:
        raise ValueError(f"{len(counts)} levels for {size} dimensions, {box}: give one number, or one per dimension")
    return [int(count) for count in counts]
