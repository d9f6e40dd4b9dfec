"""Scores by episodes, on the pendulum: its starts are random and every step has a reward."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from wolpertinger.runs import make_config
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.scores import Score, control_scorer, random_return, sampled_score

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


def test_a_share_is_only_of_a_gain():
    assert Score(value=3.0, distinct=1, best=4.0).share == 0.75
    assert Score(value=-3.0, distinct=1, best=-2.0).share is None
    assert Score(value=3.0, distinct=1, best=0.0).share is None
    assert Score(value=3.0, distinct=1).share is None


def test_one_episode_has_no_interval():
    env = make_env(make_config("puddle-world", env={"plan": 2, "size": 4}), 1)
    agent = make_agent(make_config("puddle-world", env={"plan": 2, "size": 4}), env)
    assert sampled_score(agent, env, 1).half_width is None
    assert sampled_score(agent, env, 2).half_width == 0.0  # of two equal ones
