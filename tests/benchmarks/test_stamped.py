"""The environment that shows whether transitions are whole, and stored once."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from benchmarks.distributed.stamped import EPISODE, Stamped, count_faults


def walk(steps):
    """Transitions of one environment: observations, next ones, actions, rewards."""
    env, rows = Stamped(), []
    obs, _ = env.reset(seed=0)
    for number in range(steps):
        action = np.float32([(number % 5) / 4])
        next_obs, reward, is_over, _, _ = env.step(action)
        rows.append((obs, next_obs, action[0], reward))
        obs = env.reset()[0] if is_over else next_obs
    return [np.array(column) for column in zip(*rows, strict=True)]


def test_whole_transitions_have_no_faults():
    assert count_faults(*walk(3 * EPISODE)) == {"transitions": 60, "corrupt": 0, "twice": 0}


@pytest.mark.parametrize("part", range(4))
def test_parts_that_do_not_belong_together_are_noticed(part):
    columns = walk(50)
    columns[part][7], columns[part][23] = columns[part][23].copy(), columns[part][7].copy()
    assert count_faults(*columns)["corrupt"] == 2


def test_a_transition_that_is_there_twice_is_noticed():
    rows = np.r_[0:30, 12]
    assert count_faults(*(column[rows] for column in walk(30))) == {"transitions": 31, "corrupt": 0, "twice": 1}


@pytest.mark.filterwarnings("ignore:.*")
def test_it_is_an_environment():
    check_env(
        gym.make("benchmarks.distributed.stamped:Stamped-v0", disable_env_checker=True).unwrapped,
        skip_render_check=True,
    )
