"""Part of benchmarks.speed: our step at k = 1 beside Stable-Baselines3's own DDPG, which has no actions to look up."""

import statistics
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import DDPG
from stable_baselines3.common.noise import NormalActionNoise

from benchmarks.lookup.sets import clustered
from benchmarks.measure import describe_index, say, spread, time_rounds
from benchmarks.speed.agents import (
    BATCH,
    BUFFER,
    ENVIRONMENTS,
    LEARNING_RATE,
    RANDOM_STEPS,
    Trainer,
    make_agent,
    make_env,
    preset,
    tune,
)
from benchmarks.speed.effort import Effort
from wolpertinger import ActionProduct, ActionTable, Exploration
from wolpertinger.envs.cartpole import MAX_FORCE

SIGMA = 0.1  # of the noise, in both
MILLION = 1_000_000
RECALL = 0.95
OBSERVED = spaces.Box(-np.inf, np.inf, (20,))
EPISODE = 200


class Cheap(gym.Env):
    """States drawn beforehand, no reward: a step that costs next to nothing, so that it does not hide the agent's."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._states = np.random.default_rng(0).standard_normal((1_024, *(observation_space.shape or ()))).astype("f4")
        self._at = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._states[self._at % 1_024], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._at += 1
        return self._states[self._at % 1_024], 0.0, False, self._at % EPISODE == 0, {}


class Continuous(gym.Wrapper):
    """The cart-pole with its force as a number, for an agent with continuous actions."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.action_space = spaces.Box(-MAX_FORCE, MAX_FORCE, (1,))
        cart: Any = env.unwrapped
        self._levels = cart.actions.n

    def step(self, action: Any) -> Any:
        return self.env.step(np.int64(round((float(action[0]) / MAX_FORCE + 1) / 2 * (self._levels - 1))))


def plans() -> ActionProduct:
    return ActionProduct([np.eye(2)] * 20)


def levels() -> ActionProduct:
    return ActionProduct([np.linspace(-1, 1, MILLION)])


def measure(effort: Effort) -> dict[str, Any]:
    """Pairs of ours and DDPG, in the same environment but for its action space."""

    def table(vectors: np.ndarray) -> ActionTable:
        return ActionTable(vectors, recall=RECALL, build_seconds=3 * effort.build_seconds)

    isotropic = np.random.default_rng(1).standard_normal((MILLION, 20), np.float32)
    sets: dict[str, Callable[[], Any]] = {
        "a million levels": levels,
        "2^20 plans, 40 numbers": plans,
        "a million vectors, 20 numbers": lambda: table(isotropic),
        "a million clustered vectors, 20 numbers": lambda: table(clustered(MILLION).vectors),
    }
    rows = [measure_pair(name, *cheap_pair(make()), effort) for name, make in sets.items()]
    rows.append(
        measure_pair(
            "cart-pole itself", make_env("cart-pole"), None, Continuous(gym.make(**ENVIRONMENTS["cart-pole"])), effort
        )
    )
    return {"batch": BATCH, "net_arch": [400, 300], "recall": RECALL, "rows": rows}


def cheap_pair(actions: Any) -> tuple[gym.Env, Any, gym.Env]:
    box = spaces.Box(-1, 1, (actions.dim,))
    return Cheap(OBSERVED, actions.space), actions, Cheap(OBSERVED, box)


def measure_pair(name: str, env: gym.Env, actions: Any, box_env: gym.Env, effort: Effort) -> dict[str, Any]:
    """Ratios round by round: what else the machine does hits both."""
    say(f"floor, {name}: making agents")
    agent = make_agent(env, actions, k=1, exploration=Exploration(sigma=SIGMA), **preset("", "paper"))
    tune(agent)
    trainers = {"ours": Trainer(agent), "DDPG": Trainer(make_ddpg(box_env))}
    for trainer in trainers.values():
        trainer.warm_up(40, effort.round_seconds)
    seconds = time_rounds(trainers, 2 * effort.rounds)
    ours = trainers["ours"]
    ratios = ours.kept([own / floor for own, floor in zip(seconds["ours"], seconds["DDPG"], strict=True)])
    parts, total = ours.median_parts(), statistics.median(ours.kept(seconds["ours"]))
    row = {
        "set": name,
        "n": agent.actions.n,
        "dim": agent.actions.dim,
        "index": describe_index(agent),
        "seconds": {label: spread(samples) for label, samples in seconds.items()},
        "ratio": spread(ratios),
        "parts": parts,
        "lookup_share": parts["lookup"] / total,
        "rounds_with_tuning": sum(ours.was_tuned),
    }
    say(f"floor, {name}: {row['ratio']['median']:.3f} times DDPG's step, lookup {row['lookup_share']:.1%}")
    return row


def make_ddpg(env: gym.Env) -> DDPG:
    """Stable-Baselines3's DDPG with the same settings, its buffer filled alike."""
    assert isinstance(env.action_space, spaces.Box)
    dim = env.action_space.shape[0]
    agent = DDPG(
        "MlpPolicy",
        env,
        learning_rate=LEARNING_RATE,
        batch_size=BATCH,
        buffer_size=BUFFER,
        learning_starts=RANDOM_STEPS,
        train_freq=1,
        gradient_steps=1,
        tau=0.005,
        action_noise=NormalActionNoise(np.zeros(dim), np.full(dim, SIGMA)),
        policy_kwargs={"net_arch": [400, 300]},
        seed=0,
    )
    return agent.learn(RANDOM_STEPS)
