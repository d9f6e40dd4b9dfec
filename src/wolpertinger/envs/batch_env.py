"""The base class of our vectorised environments."""

from abc import abstractmethod
from numbers import Integral
from typing import Any

from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from wolpertinger.actions import ActionSet
from wolpertinger.envs.state import Restorable


def require_whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int, if it is a whole number in range."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        accepted = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name}={value!r}: give a whole number {accepted}")
    return int(value)


class BatchEnv(Restorable, VectorEnv):
    """A batch of copies of one environment, stepped at once: one random generator for all, same-step autoreset."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012 - Gymnasium's own form

    def __init__(self, num_envs: int, observation_space: spaces.Space, actions: ActionSet) -> None:
        self.num_envs = require_whole("num_envs", num_envs, 1)
        self.actions = actions
        self.single_observation_space, self.single_action_space = observation_space, actions.space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.render_mode = None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed[0] if isinstance(seed, list) else seed)
        return self._begin()

    @abstractmethod
    def _begin(self) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment; return observations and infos."""
