import numpy as np
import pytest
from gymnasium import spaces

from tests.data.logs import make
from wolpertinger import ActionIds, LogError, Transitions


def test_a_log_knows_its_rows_and_episodes():
    log = make()
    assert (len(log), log.n_episodes, log.n_unusable, log.has_propensities) == (12, 3, 1, True)
    assert np.flatnonzero(log.ends).tolist() == [3, 6, 11]
    assert repr(log) == "Transitions(n=12, episodes=3, propensity)"


@pytest.mark.parametrize("without", ["episode", "terminated", "truncated"])
def test_episodes_are_told_by_names_or_by_flags(without):
    changes = {without: None, "time": None} if without == "episode" else {without: None}
    assert np.flatnonzero(make(**changes).ends).tolist() == [3, 6, 11]


def test_what_comes_next_is_the_next_row_and_nothing_where_an_episode_was_cut():
    rows = make().rows(slice(0, 12))
    assert rows.number.tolist() == list(range(11))
    going_on = ~rows.terminated
    np.testing.assert_array_equal(rows.next_obs[going_on], rows.obs[going_on] + 2)
    assert rows.terminated.nonzero()[0].tolist() == [3, 6]


def test_next_observations_make_every_row_usable():
    following = np.arange(2.0, 26.0).reshape(12, 2)
    log = make(next_observation=following)
    assert log.n_unusable == 0
    np.testing.assert_array_equal(log.rows(slice(10, 12)).next_obs, following[10:])


def test_rows_of_a_part_go_on_in_the_next_part():
    rows = make().rows(slice(0, 2))
    np.testing.assert_array_equal(rows.next_obs[1], [4.0, 5.0])


def test_allowed_actions_are_logged_ones():
    allowed = [[action, 7] for action in np.arange(12) % 5]
    log = make(allowed=allowed)
    assert log.logged_actions().tolist() == [0, 1, 2, 3, 4, 7]
    assert [part.tolist() for part in log.allowed_in(np.array([2, 0]))] == [[2, 7], [0, 7]]
    log.check(ActionIds(8))
    with pytest.raises(LogError, match="allowed holds what is not in ActionIds"):
        log.check(ActionIds(7))


@pytest.mark.parametrize(
    ("observations", "space"),
    [
        (np.arange(12), spaces.Discrete(12)),
        (np.arange(12.0), spaces.Box(-np.inf, np.inf, (1,), np.float32)),
        (np.zeros((12, 3, 4, 4), np.uint8), spaces.Box(0, 255, (3, 4, 4), np.uint8)),
        (np.zeros((12, 3), np.float64), spaces.Box(-np.inf, np.inf, (3,), np.float32)),
    ],
)
def test_the_observation_space_is_the_plainest(observations, space):
    assert make(observation=observations).observation_space() == space


def test_one_row_that_terminates_is_a_log():
    log = Transitions([[1.0]], [0], [1.0], [True])
    assert (len(log), log.n_episodes, log.n_unusable) == (1, 1, 0)
