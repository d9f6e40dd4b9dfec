"""Validation of what an agent is made for: its environment, its action set, and whether they fit."""

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize

from wolpertinger.actions import ActionSet, count_actions, same_actions
from wolpertinger.agent.exploration import Exploration
from wolpertinger.agent.faults import ON_BAD_TRANSITION
from wolpertinger.settings import check_choice


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


def match_actions(actions: ActionSet | None, space: Any, env: VecEnv | None) -> ActionSet:
    """The action set for an environment: the given one or its own, in the form that its space asks for."""
    if actions is None:
        actions = offered_actions(env)
        if actions is None:
            raise ValueError(
                f"no action set: the environment ({space}) offers none as env.unwrapped.actions. Give "
                "actions=ActionTable(vectors) with one vector per action, or actions=ActionProduct(levels)"
            )
    if not isinstance(actions, ActionSet):
        raise TypeError(f"actions={actions!r} is no action set: give ActionTable(vectors) or ActionProduct(levels)")
    if actions.n == count_actions(space):
        actions = actions.with_space(space)
    if not same_actions(actions.space, space):
        raise ValueError(
            f"the environment takes {count_actions(space)} actions ({space}), "
            f"the action set has {actions.n} ({actions.space}): they must be the same"
        )
    return actions


def require_guidance(exploration: Exploration, env: VecEnv | None) -> None:
    """Refuse guided exploration where the environment offers no subset of actions to draw from."""
    if exploration.guided and env is not None and not env.has_attr("guided_actions"):  # the warm-up is guided too
        raise ValueError(
            f"guided={exploration.guided} needs an environment with a method guided_actions() "
            "that returns the subset of actions for its current state; or set guided=0"
        )


def offered_actions(env: VecEnv | None) -> Any:
    """What the environment offers as `env.unwrapped.actions`, or None."""
    return env.get_attr("actions", indices=0)[0] if env is not None and env.has_attr("actions") else None


def require_same_actions(actions: ActionSet, env: VecEnv) -> None:
    """Refuse an environment that offers another set than `actions`, which the agent took from an environment."""
    offered = offered_actions(env)
    if offered is not None and offered.sha256 != actions.sha256:
        raise ValueError(
            f"the environment offers an action set with SHA-256 {offered.sha256}, the agent learned with "
            f"{actions.sha256}: their actions are not the same"
        )


def require_skippable(on_bad_transition: str, env: VecEnv | None, shares_observations: bool) -> None:
    """Refuse to skip bad transitions where they leave traces: in running means, or in observations that are shared."""
    check_choice("on_bad_transition", on_bad_transition, ON_BAD_TRANSITION)
    normalised = env is not None and unwrap_vec_normalize(env) is not None
    if on_bad_transition == "skip" and (normalised or shares_observations):
        what = "VecNormalize, whose running means a bad number spoils" if normalised else "optimize_memory_usage=True"
        raise ValueError(f'on_bad_transition="skip" does not go with {what}: leave out one of them')


def require_fixed_observations(critic: Any, env: VecEnv | None) -> None:
    """Refuse observations whose scaling changes over time where the critic tells states apart by their numbers."""
    normalised = None if env is None else unwrap_vec_normalize(env)
    if critic.needs_fixed_features and normalised is not None and normalised.norm_obs:
        raise ValueError(
            f"state_embedding={critic.state_embedding} tells states apart by their numbers, which VecNormalize changes "
            "as it goes: leave out one of them, or make it VecNormalize(..., norm_obs=False)"
        )
