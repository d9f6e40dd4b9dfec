"""A run that gets worse than random says so, once, and others say nothing."""

import logging

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.logger import Logger

from wolpertinger import ActionIds, WorseThanRandom
from wolpertinger.agent import callbacks

from .envs import greedy, small_agent


class Punished(gym.Env):
    """Whoever repeats an action pays 1 (or gets 1, with sign=1), and a policy in a constant state repeats itself."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(10)

    def __init__(self, sign=-1, length=10):
        self.sign, self.length = sign, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.before, self.steps = None, 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        reward, self.before = self.sign * float(action == self.before), action
        self.steps += 1
        return np.zeros(2, np.float32), reward, False, self.steps == self.length, {}


def stubborn(env, **settings):
    """An agent that learns nothing and always does the same."""
    settings = {"learning_starts": 120, "learning_rate": 0.0, "exploration": greedy(epsilon=1e-9), **settings}
    return small_agent(env, actions=ActionIds(10), **settings)


def run(env, steps=1_000, **settings):
    said = []
    callback = WorseThanRandom(said.append)
    stubborn(env, train_freq=100, **settings).learn(steps, callback=callback)
    return said, callback


def test_a_policy_that_is_worse_than_random_is_told_once_with_what_to_look_at():
    said, callback = run(Punished())
    assert len(callback.random) >= callbacks.LEAST_RANDOM
    assert -2 < np.mean(callback.random) < 0
    (text,) = said
    assert "worse than random: at step 500 " in text  # after a fifth of the run, 200 steps: 30 episodes of 10 steps
    assert "the last 30 episodes earned -9 on average" in text
    assert "train/q_chosen" in text
    assert callback.is_worse


def test_a_policy_that_is_better_than_random_is_not():
    said, callback = run(Punished(sign=1))
    assert said == []
    assert callback._knows_random


def test_by_default_the_warning_is_in_the_log(caplog):
    with caplog.at_level(logging.WARNING, "wolpertinger"):
        stubborn(Punished(), train_freq=100).learn(600, callback=CallbackList([WorseThanRandom()]))
    (record,) = caplog.records
    assert record.getMessage().startswith("worse than random")


def test_many_environments_count_together():
    said, _ = run(gym.vector.SyncVectorEnv([Punished] * 4, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP))
    assert len(said) == 1


@pytest.mark.parametrize(("length", "starts"), [(50, 120), (10, 0)])
def test_without_random_episodes_there_is_nothing_to_compare_with(length, starts, caplog):
    """Fifty steps an episode and 120 of warm-up: two began in its first half, too few."""
    with caplog.at_level(logging.INFO, "wolpertinger"):
        said, callback = run(Punished(length=length), 600, learning_starts=starts)
    assert (said, callback._knows_random) == ([], False)
    assert "too few to compare with" in caplog.text


def test_a_level_that_is_known_needs_no_random_episodes():
    said = []
    agent = stubborn(Punished(length=50), train_freq=100, learning_starts=0)
    agent.learn(2_200, callback=WorseThanRandom(said.append, level=-5.0))  # after a fifth, 30 episodes of 50 steps
    (text,) = said
    assert "the last 30 episodes earned -49 on average, random actions earn -5. Look at" in text
    with pytest.raises(ValueError, match=r"level='low': give a finite number"):
        WorseThanRandom(level="low")


def judged(random, *batches):
    """What it says to batches of returns after these random ones, batch by batch."""
    said, agent = [], stubborn(Punished())
    callback = WorseThanRandom(said.append)
    callback.init_callback(agent)
    agent._logger = Logger(None, [])
    callback.random = list(random)
    counts = []
    for batch in batches:
        callback.recent = list(batch)
        callback._judge()
        counts.append(len(said))
    return counts


def test_it_is_said_again_only_after_a_recovery():
    rng = np.random.default_rng(0)
    random, bad, near, good = (mean + rng.normal(size=30) for mean in (0.0, -3.0, -0.5, 1.0))
    assert judged(random, bad, bad, near, bad, good, bad, bad) == [1, 1, 1, 1, 1, 2, 2]


def test_a_policy_as_good_as_random_hardly_ever_raises_an_alarm():
    rng = np.random.default_rng(0)
    alarms = [judged(rng.exponential(size=40), *rng.exponential(size=(50, 30)))[-1] for _ in range(40)]
    assert sum(alarms) <= 2  # of 2,000 batches


def test_equal_returns_are_not_worse():
    assert judged([-200.0] * 9, [-200.0] * 30) == [0]
    assert judged([-200.0] * 9, [-201.0] * 30) == [1]
