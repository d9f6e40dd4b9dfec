import copy

import numpy as np
import pytest

from wolpertinger.agent.training_check import check_training_state
from wolpertinger.agent.training_state import get_training_state
from wolpertinger.agent.trees import pack, unpack

from .envs import small_agent


@pytest.fixture(scope="module")
def agent():
    return small_agent().learn(40)


@pytest.fixture
def state(agent):
    return copy.deepcopy(unpack(*pack(get_training_state(agent))))


def test_what_a_training_leaves_is_taken(agent, state):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert check_training_state(agent, state) is state
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("evil", 1, "evil missing or unknown"),
        ("last_obs", np.zeros((9, 2), np.float32), "the last observations are not"),
        ("last_obs", np.full((1, 2), np.nan, np.float32), "the last observations are not"),
        ("episodes", [{"r": "x", "l": 1}], "an episode is"),
        ("successes", ["x"], "successes are no numbers"),
        ("seconds", {"act": -1}, "act=-1"),
        ("log", {"a": [[], 0, []]}, "the log has a="),
        ("env", {}, "inner, wrappers missing"),
    ],
)
def test_what_it_cannot_leave_is_refused(agent, state, name, value, match):
    with pytest.raises((ValueError, TypeError), match=match):
        check_training_state(agent, {**state, name: value})


@pytest.mark.parametrize("place", [-1, 625, 10**9, 1.0])
def test_numpy_is_not_told_to_read_beyond_its_state(agent, state, place):
    state["random"]["numpy"][2] = place
    with pytest.raises(ValueError, match="not of the Mersenne twister"):
        check_training_state(agent, state)
