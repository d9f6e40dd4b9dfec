"""Numbers that are none: NaN and infinity from environments, rewards of 1e30, a learning rate of 10."""

import random
import re
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

from wolpertinger import ActionTable, Wolpertinger
from wolpertinger.agent.buffer_files import buffer_arrays
from wolpertinger.agent.faults import BadTransitionError

STEPS, ENVS, LENGTH = 60, 3, 7
BAD = (np.nan, np.inf, -np.inf, 1e39)
FIELDS = ("reward", "observation", "terminal observation")
FORMS: tuple[dict[str, Any], ...] = (  # of agents: what searches, and what looks up
    {"critic": "two-tower", "candidates": "critic"},
    {"critic": "mlp", "candidates": "nearest", "learner": "ddpg"},
    {"critic": "mlp", "candidates": "nearest", "learner": "td3", "n_steps": 3},
)


class FaultyEnv(gym.Env):
    """Rewards of a scale; at one step of its life one field holds a number that is none."""

    def __init__(self, number: int, fault: tuple[int, int, str, float] | None = None, scale: float = 1.0) -> None:
        self.actions = ActionTable(np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32))
        self.action_space = gym.spaces.Discrete(20)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.fault, self.scale, self.steps, self.number = fault, scale, 0, number

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        obs, reward = self.np_random.uniform(-1, 1, 2), self.scale * float(self.np_random.normal())
        done = self.steps % LENGTH == 0
        if self.fault is not None and self.fault[:2] == (self.number, self.steps):
            field, value = self.fault[2:]
            reward = value if field == "reward" else reward
            obs[1] = obs[1] if field == "reward" else value
        return obs, reward, done, False, {}


def new_agent(form: dict[str, Any], envs: list[FaultyEnv], **options: Any) -> Wolpertinger:
    small = {"learning_starts": 6, "batch_size": 8, "buffer_size": 300, "policy_kwargs": {"net_arch": [8, 8]}}
    # In the environment's own units: standard ones would make a reward of 1e30 an ordinary one.
    every = {"train_freq": 1, "gradient_steps": 1, "standardize": False, "seed": 0, "device": "cpu"}
    env = DummyVecEnv([lambda env=env: env for env in envs])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Wolpertinger("MlpPolicy", env, **{**form, **small, **every, **options})


def all_finite(agent: Wolpertinger) -> bool:
    """Weights, moments and buffer."""
    moments = (
        value
        for network in (agent.actor, agent.critic)
        for state in network.optimizer.state_dict()["state"].values()
        for value in state.values()
    )
    tensors = [*agent.policy.state_dict().values(), *map(torch.as_tensor, moments)]
    tensors += [torch.as_tensor(array) for array in buffer_arrays(agent.replay_buffer).values()]
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


def bad_numbers(tries: int, seed: int = 0) -> dict[str, Any]:
    """One bad number at a random step of a random environment: named and not stored, or left out and counted."""
    rng = random.Random(seed)
    found: dict[str, Any] = {"raised": 0, "named": 0, "skipped": 0, "counted": 0, "finite": 0, "failures": []}
    for number in range(2 * tries):
        field = rng.choice(FIELDS)
        steps = [step for step in range(1, STEPS) if (step % LENGTH == 0) == (field == "terminal observation")]
        fault = (rng.randrange(ENVS), rng.choice(steps), field, rng.choice(BAD))
        mode = ("raise", "skip")[number % 2]
        envs = [FaultyEnv(i, fault) for i in range(ENVS)]
        agent = new_agent(rng.choice(FORMS), envs, on_bad_transition=mode)
        try:
            agent.learn(STEPS * ENVS)
            found["skipped"] += 1
            # A bad observation spoils what led to it and what comes of it, unless it was the last of its episode.
            expected = 2 if field == "observation" else 1
            found["counted"] += agent.faults.bad_transitions == expected
        except BadTransitionError as error:
            found["raised"] += 1
            found["named"] += bool(re.match(rf"environment {fault[0]}, step {fault[1]}: the {field} holds", str(error)))
        if all_finite(agent):
            found["finite"] += 1
        else:
            found["failures"].append(f"{mode} {fault}")
    return found


def explosions(tries: int, seed: int = 0, **options: Any) -> dict[str, Any]:
    """Rewards of 1e30, or a learning rate of 10: updates are rejected and counted, everything stays finite."""
    rng = random.Random(seed)
    scale = options.pop("scale", 1.0)
    found: dict[str, Any] = {"tries": 0, "finite": 0, "updates": 0, "rejected": 0, "failures": []}
    for number in range(tries):
        form = rng.choice(FORMS)
        agent = new_agent(form, [FaultyEnv(i, scale=scale) for i in range(ENVS)], **options)
        agent.set_random_seed(rng.randrange(10**6))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agent.learn(STEPS * ENVS)
        found["tries"] += 1
        found["updates"] += agent._n_updates
        found["rejected"] += agent.faults.rejected_updates
        if all_finite(agent):
            found["finite"] += 1
        else:
            found["failures"].append(f"{number}: {form}")
    return found


def large_rewards(tries: int, seed: int = 0) -> dict[str, Any]:
    return explosions(tries, seed, scale=1e30)


def large_steps(tries: int, seed: int = 0) -> dict[str, Any]:
    return explosions(tries, seed, learning_rate=10.0)
