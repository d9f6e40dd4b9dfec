"""Agents by name: ours with any settings, Stable-Baselines3's with their own defaults."""

from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import stable_baselines3 as sb3
from gymnasium import spaces

from benchmarks.suite.task import Predict
from wolpertinger import ActionSet, Wolpertinger

ROUNDED = {"ddpg": sb3.DDPG, "td3": sb3.TD3, "sac": sb3.SAC}
PER_ACTION = {"dqn": sb3.DQN, "ppo": sb3.PPO}


class Rounded(gym.ActionWrapper):
    """Continuous actions in the box of the actions' vectors; the nearest member of A is executed."""

    def __init__(self, env: gym.Env, actions: ActionSet) -> None:
        super().__init__(env)
        self.actions = actions
        self.action_space = spaces.Box(*(np.asarray(bound, np.float32) for bound in (actions.low, actions.high)))

    def action(self, action: npt.NDArray[np.float32]) -> Any:
        return self.actions.nearest(action[None], 1)[0, 0]


class Masked(gym.Wrapper):
    """What a state allows as a mask over all of A, for contrib's MaskablePPO."""

    def action_masks(self) -> npt.NDArray[np.bool_]:
        return as_mask(self.env.get_wrapper_attr("allowed_actions")(), self.action_space)


def as_mask(allowed: npt.NDArray[np.int64], space: spaces.Discrete) -> npt.NDArray[np.bool_]:
    mask = np.zeros(int(space.n), np.bool_)
    mask[allowed] = True
    return mask


def make_agent(
    name: str, env: gym.Env, actions: ActionSet, *, seed: int, settings: dict[str, Any]
) -> tuple[Any, Predict]:
    """An agent, and its policy without exploration.

    `name` is "wolpertinger", "dqn", "qr-dqn", "ppo", "ddpg", "td3", "sac"; "maskable-ppo" where states say what they
    allow; "sac-topk" is SAC with SARDINE's own `TopK`.
    """
    settings = {"seed": seed, "device": "cpu", **settings}
    if name in ROUNDED:
        agent = ROUNDED[name]("MlpPolicy", Rounded(env, actions), **settings)
        return agent, lambda obs: actions.nearest(agent.predict(obs, deterministic=True)[0], 1)[:, 0]
    if name == "maskable-ppo":
        agent = import_module("sb3_contrib").MaskablePPO("MlpPolicy", Masked(env), **settings)
        return agent, lambda obs, allowed: agent.predict(
            obs, deterministic=True, action_masks=np.stack([as_mask(own, env.action_space) for own in allowed])
        )[0]
    if name == "sac-topk":
        slates = _top_k(env)
        agent = sb3.SAC("MlpPolicy", slates, **settings)
        return agent, lambda obs: np.stack([slates.action(own) for own in agent.predict(obs, deterministic=True)[0]])
    if name == "qr-dqn":
        agent = import_module("sb3_contrib").QRDQN("MlpPolicy", env, **settings)
    elif name in PER_ACTION:
        agent = PER_ACTION[name]("MlpPolicy", env, **settings)
    else:
        agent = Wolpertinger("MlpPolicy", env, actions, **settings)
    return agent, lambda obs, **known: agent.predict(obs, deterministic=True, **known)[0]


def _top_k(env: gym.Env) -> Any:
    """SARDINE's slates of the items whose products with a continuous action are largest, in the box it documents."""
    vectors = env.unwrapped.item_embedd  # type: ignore[attr-defined]
    wrap = import_module("sardine.wrappers").TopK
    return wrap(env, min_action=float(vectors.min()), max_action=float(vectors.max()))
