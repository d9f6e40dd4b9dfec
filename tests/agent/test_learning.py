"""It learns."""

import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from wolpertinger import ActionProduct, Wolpertinger

from .envs import TargetEnv

SETTINGS = {"seed": 0, "learning_starts": 200, "policy_kwargs": {"net_arch": [64, 64]}, "buffer_size": 10_000}


def random_score(env, episodes=500):
    rewards = []
    env.action_space.seed(0)
    for seed in range(episodes):
        env.reset(seed=seed)
        rewards.append(env.step(env.action_space.sample())[1])
    return np.mean(rewards)


def score(agent, env):
    return evaluate_policy(agent, Monitor(env), n_eval_episodes=100)[0]


def test_the_agent_learns_to_pick_the_nearest_action():
    env = TargetEnv(points_per_axis=32, dim=2)
    assert random_score(env) == pytest.approx(-1.04, abs=0.1)
    agent = Wolpertinger("MlpPolicy", env, k=8, **SETTINGS).learn(600)
    assert score(agent, env) > -0.3  # three seeds scored -0.06 to -0.11 after 500 steps


def test_the_agent_learns_with_digits_and_more_actions_than_can_be_listed():
    env = TargetEnv(ActionProduct([np.linspace(-1, 1, 101)] * 6, space="multidiscrete"))
    agent = Wolpertinger("MlpPolicy", env, k=4, **{**SETTINGS, "critic": "mlp", "candidates": "nearest"})
    before = score(agent, env)
    agent.learn(600)
    assert score(agent, env) > before + 0.4 > random_score(env) + 0.8
