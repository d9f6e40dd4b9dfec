"""Scores by episodes, on the pendulum: its starts are random and every step has a reward."""

import gymnasium as gym
import numpy as np
import pytest

from tests.runs.tiny import SMALL
from wolpertinger.runs import make_config
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.scores import Score, control_scorer, puddle_scorer, random_return, sampled_score

OPTIONS = {"env_id": "Pendulum-v1", "levels": 11}
CONFIG = make_config("control", env=OPTIONS, changes={"buffer_size": 10, "policy_kwargs": {"net_arch": [16, 16]}})


def test_a_score_is_of_the_same_episodes_every_time():
    env = make_env(CONFIG, 3)
    agent = make_agent(CONFIG, env)
    scorer = control_scorer(env, 3, seed=5)
    scores = [scorer.score(agent).value for _ in range(2)]

    pendulums = gym.make_vec("wolpertinger/Discretized-v0", num_envs=3, **OPTIONS)
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


def test_a_score_by_episodes_is_what_a_loop_over_them_returns():
    config = make_config("puddle-world", env={"plan": 2, "size": 5}, n_envs=2, changes=SMALL)
    env = make_env(config, 1)
    agent = make_agent(config, env)
    world = gym.make("wolpertinger/PuddleWorld-v0", plan=2, size=5)
    obs, _ = world.reset()
    total, over, taken = 0.0, False, set()
    while not over:
        action, _ = agent.predict(obs, deterministic=True)
        obs, reward, ended, cut, _ = world.step(action)
        total, over = total + reward, ended or cut
        taken.add(int(action))
    found = puddle_scorer(env, 1, seed=0).score(agent)
    assert (found.value, found.distinct) == (total, len(taken))
