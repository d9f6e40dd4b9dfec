"""Does the action set fit the environment? Said at construction, with both sizes."""

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from wolpertinger.actions import ActionProduct, ActionSet
from wolpertinger.agent.exploration import Exploration


def require_discrete(space: spaces.Space) -> None:
    """Refuse what is not a discrete action space, and say how to make one."""
    if isinstance(space, spaces.Box):
        raise ValueError(
            f"the environment's actions are continuous ({space}): discretise them. "
            "wolpertinger.discretize(env, levels=101) turns every dimension into 101 levels and brings the action set"
        )
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        raise ValueError(f"the environment's action space is {space}: Discrete or MultiDiscrete is needed")
    if np.any(space.start):
        raise ValueError(f"the environment's actions start at {space.start}: number them from 0")


def match_actions(
    actions: ActionSet | None, space: spaces.Space, env: VecEnv | None, exploration: Exploration
) -> ActionSet:
    """The action set of the user or the environment, in the form that `space` asks for."""
    if actions is None:
        actions = offered_actions(env)
        if actions is None:
            raise ValueError(
                f"no action set: the environment ({space}) offers none as env.unwrapped.actions. Give "
                "actions=ActionTable(vectors) with one vector per action, or actions=ActionProduct(levels)"
            )
    if not isinstance(actions, ActionSet):
        raise TypeError(f"actions={actions!r} is no action set: give ActionTable(vectors) or ActionProduct(levels)")
    if isinstance(actions, ActionProduct) and actions.n == _size(space):
        actions = actions.with_space(space)  # type: ignore[arg-type]  # require_discrete has checked it
    if not _same(actions.space, space):
        raise ValueError(
            f"the environment takes {_size(space)} actions ({space}), "
            f"the action set has {actions.n} ({actions.space}): they must be the same"
        )
    if exploration.guided and env is not None and not env.has_attr("guided_actions"):  # the warm-up is guided too
        raise ValueError(
            f"guided={exploration.guided} needs an environment with a method guided_actions() "
            "that returns the subset of actions for its current state; or set guided=0"
        )
    return actions


def offered_actions(env: VecEnv | None) -> Any:
    """What the environment offers as `env.unwrapped.actions`, or None."""
    return env.get_attr("actions", indices=0)[0] if env is not None and env.has_attr("actions") else None


def require_same_actions(actions: ActionSet, env: VecEnv) -> None:
    """Refuse an environment that offers another set than `actions`, which the agent took from an environment."""
    own, other = (getattr(found, "sha256", None) for found in (actions, offered_actions(env)))
    if own is not None and other is not None and own != other:
        raise ValueError(
            f"the environment offers an action set with SHA-256 {other}, the agent learned with {own}: "
            "their actions are not the same"
        )


def _same(space: Any, other: Any) -> bool:
    """The same actions, whatever the integer type: int32 digits are as good as int64 ones."""
    if isinstance(space, spaces.Discrete):
        return isinstance(other, spaces.Discrete) and space.n == other.n
    return isinstance(other, spaces.MultiDiscrete) and np.array_equal(space.nvec, other.nvec)


def _size(space: Any) -> int:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    return int(np.prod([int(n) for n in space.nvec.flat], dtype=object))
