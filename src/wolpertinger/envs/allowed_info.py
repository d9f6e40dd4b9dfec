"""What an environment says of the actions that its state allows, beside the observation."""

from typing import Any

import gymnasium as gym

METHODS = ("allowed_actions", "action_masks")
"""Methods by which an environment says what its current state allows: ours, and sb3-contrib's."""
KEY = "allowed_actions"
"""The same in its infos."""


class AllowedInInfo(gym.Wrapper):
    """Puts what `allowed_actions()` or `action_masks()` says into every info.

    So it is known of an episode's last state too: a vector environment has begun the next one when it is asked.
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self._allowed = env.get_wrapper_attr(next(name for name in METHODS if env.has_wrapper_attr(name)))

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**options)
        return obs, {**info, KEY: self._allowed()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        allowed = {} if terminated else {KEY: self._allowed()}
        return obs, reward, terminated, truncated, {**info, **allowed}


def says_allowed(env: gym.Env) -> bool:
    """Whether an environment has one of the methods."""
    return any(env.has_wrapper_attr(name) for name in METHODS)
