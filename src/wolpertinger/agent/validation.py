"""Validation of what an agent is made for: its environment, its action set, and whether they fit."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.base_class import maybe_make_env
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize

from wolpertinger.actions import ActionIds, ActionProduct, ActionSet, count_actions, same_actions
from wolpertinger.actions.factor import even_levels
from wolpertinger.agent.exploration import Exploration
from wolpertinger.agent.faults import ON_BAD_TRANSITION
from wolpertinger.settings import check_choice, check_kind, show


def make_env(env: Any, verbose: int = 0) -> Any:
    """The environment, by its id if that is what was given."""
    check_kind("env", env, str | gym.Env | VecEnv | gym.vector.VectorEnv, "an environment, or the id of one")
    try:
        return maybe_make_env(env, verbose)
    except (gym.error.Error, ImportError) as error:
        raise ValueError(f"env={env!r} cannot be made: {error}") from error


def require_observations(space: spaces.Space) -> None:
    """Refuse observations that Stable-Baselines3 has no networks or buffers for."""
    known = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    parts = space.values() if isinstance(space, spaces.Dict) else [space]
    if not parts or not all(isinstance(part, known) for part in parts):
        accepted = "Box, Discrete, MultiDiscrete, MultiBinary or a Dict of them is needed"
        raise ValueError(f"the environment's observations are {show(space)}: {accepted}")


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


def find_actions(space: Any, env: VecEnv | None, *, verbose: bool) -> ActionSet:
    """The environment's own action set; where it offers none, the plainest one for its space, and verbose says so."""
    if (offered := offered_actions(env)) is not None:
        return offered
    if isinstance(space, spaces.MultiDiscrete):
        actions: ActionSet = ActionProduct(
            [even_levels(-1, 1, int(size)) if size > 1 else [-1.0] for size in np.ravel(space.nvec)]
        )
        assumed = (
            "taken for levels of controls, evenly spaced. Up to 33 are learned one by one; of more, neighbouring "
            "numbers do about the same. If they do not, give actions=ActionProduct([np.eye(n) for n in "
            'env.action_space.nvec]), critic="factored"'
        )
    else:
        actions = ActionIds(count_actions(space))
        assumed = (
            "known by their number only: each action is learned by itself. If you have a vector for each, give "
            "actions=ActionTable(vectors), and what is learned of one is known of those like it"
        )
    if verbose:
        print(f"actions {space} without actions=: {assumed}")
    return actions


def match_actions(actions: Any, space: Any) -> ActionSet:
    """The action set in the form that the environment's space asks for."""
    if not isinstance(actions, ActionSet):
        raise TypeError(
            f"actions={show(actions)} is no action set: "
            "give ActionTable(vectors), ActionProduct(levels) or ActionIds(n)"
        )
    if actions.n == count_actions(space):
        actions = actions.with_space(space)
    if not same_actions(actions.space, space):
        raise ValueError(
            f"the environment takes {show(count_actions(space))} actions ({space}), "
            f"the action set has {show(actions.n)} ({actions.space}): they must be the same"
        )
    return actions


def require_actor_gradient(critic: Any, candidates: Any, actions: ActionSet) -> None:
    """Refuse an actor that would learn from a critic whose values do not depend on the vectors but by a table."""
    if actions.is_numbered and critic.has_keys and getattr(candidates, "needs_actor", True):
        raise ValueError(
            f"candidates={candidates!r} asks an actor, which learns nothing from two towers over {actions!r}: these "
            'have a row for each action, not a function of its vector. Give candidates="critic" or critic="mlp"'
        )


def require_guidance(exploration: Exploration, env: VecEnv | None) -> None:
    """Refuse guided exploration where the environment offers no subset of actions to draw from."""
    if exploration.guided and env is not None and not env.has_attr("guided_actions"):  # the warm-up is guided too
        raise ValueError(
            f"guided={exploration.guided} needs an environment with a method guided_actions() "
            "that returns the subset of actions for its current state; or set guided=0"
        )


def offered_actions(env: VecEnv | None) -> ActionSet | None:
    """The action set that the environment offers as `env.unwrapped.actions`; whatever else has that name is none."""
    offered = env.get_attr("actions", indices=0)[0] if env is not None and env.has_attr("actions") else None
    return offered if isinstance(offered, ActionSet) else None


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
