"""It learns."""

import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from wolpertinger import ActionProduct, Wolpertinger

from .envs import TargetEnv


def random_score(env, episodes=500):
    rewards = []
    for seed in range(episodes):
        env.reset(seed=seed)
        rewards.append(env.step(env.action_space.sample())[1])
    return np.mean(rewards)


def test_the_agent_learns_to_pick_the_nearest_action():
    env = TargetEnv(points_per_axis=32, dim=2)
    assert random_score(env) == pytest.approx(-1.04, abs=0.1)
    agent = Wolpertinger("MlpPolicy", env, k=8, seed=0, learning_starts=200, policy_kwargs={"net_arch": [64, 64]})
    agent.learn(2_000)
    mean_reward, _ = evaluate_policy(agent, Monitor(env), n_eval_episodes=100)
    assert mean_reward > -0.3  # a random policy scores -1.04


def test_the_agent_learns_with_digits_and_more_actions_than_can_be_listed():
    env = TargetEnv(ActionProduct([np.linspace(-1, 1, 101)] * 12, space="multidiscrete"))
    settings = {"learning_starts": 200, "policy_kwargs": {"net_arch": [64, 64]}, "buffer_size": 10_000}
    agent = Wolpertinger("MlpPolicy", env, k=4, seed=0, **settings)
    before, _ = evaluate_policy(agent, Monitor(env), n_eval_episodes=100)
    agent.learn(1_500)
    after, _ = evaluate_policy(agent, Monitor(env), n_eval_episodes=100)
    assert after > before + 0.3
    assert after > random_score(env) + 0.8
