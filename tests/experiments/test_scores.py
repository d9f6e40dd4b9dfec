"""Scores by episodes, on the pendulum: its starts are random and every step has a reward."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from wolpertinger.experiments import make_config
from wolpertinger.experiments.run import make_agent, make_env
from wolpertinger.experiments.scores import control_scorer, random_return

OPTIONS = {"env_id": "Pendulum-v1", "levels": 11}
CONFIG = make_config("control", env=OPTIONS, changes={"buffer_size": 10, "policy_kwargs": {"net_arch": [16, 16]}})


def test_a_score_is_of_the_same_episodes_every_time():
    options = {**OPTIONS, "max_episode_steps": 30}
    config = replace(CONFIG, env=options)
    env = make_env(config, 3)
    agent = make_agent(config, env)
    scorer = control_scorer(env, 3, seed=5)
    scores = [scorer.score(agent).value for _ in range(2)]

    pendulums = gym.make_vec("wolpertinger/Discretized-v0", num_envs=3, **options)
    obs, _ = pendulums.reset(seed=5)
    returns, over = np.zeros(3), np.array([False])
    while not over.any():  # all end together
        obs, rewards, _, over, _ = pendulums.step(agent.predict(obs, deterministic=True)[0])
        returns += rewards
    assert np.ptp(returns) > 1
    assert scores == pytest.approx([returns.mean()] * 2, rel=1e-5)


def test_random_torques_return_about_minus_1200():
    assert random_return(make_env(CONFIG, 10), 10, seed=0) == pytest.approx(-1_200, abs=200)
