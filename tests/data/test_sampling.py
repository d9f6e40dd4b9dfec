import numpy as np
import pytest

from tests.data.logs import make
from wolpertinger import Transitions
from wolpertinger.data.sampling import LogSampler, returns_of


def numbered(rows):
    """A log whose rewards are the numbers of its rows, in episodes of seven."""
    return Transitions(np.arange(rows)[:, None] * 1.0, np.zeros(rows, int), np.arange(rows), np.arange(rows) % 7 == 6)


def test_a_log_that_fits_is_drawn_from_as_a_whole():
    sampler = LogSampler(make(), seed=0)
    drawn = sampler.sample(5_000)
    assert sampler.holds_all
    counts = np.bincount(drawn.number, minlength=12)
    assert counts[11] == 0  # says nothing of what came next
    assert counts[:11].min() > 5_000 / 11 * 0.7
    np.testing.assert_array_equal(drawn.rewards, drawn.number)


def test_a_log_that_does_not_fit_passes_through_the_pool():
    log = numbered(1_000)
    sampler = LogSampler(log, seed=0, pool_bytes=1, block=64)
    assert not sampler.holds_all
    drawn = [sampler.sample(16) for _ in range(400)]
    assert max(len(np.unique(rows.number)) for rows in drawn) > 8
    seen = np.unique(np.concatenate([rows.number for rows in drawn]))
    assert len(seen) > 800
    for rows in drawn:
        np.testing.assert_array_equal(rows.rewards, rows.number)
        going_on = ~rows.terminated
        np.testing.assert_array_equal(rows.next_obs[going_on, 0], rows.number[going_on] + 1)


def test_the_same_seed_draws_the_same():
    one, other = (LogSampler(numbered(500), seed=3, pool_bytes=1, block=64) for _ in range(2))
    for _ in range(20):
        np.testing.assert_array_equal(one.sample(32).number, other.sample(32).number)


def test_a_log_of_which_nothing_can_be_learned_is_refused():
    log = Transitions(np.zeros((3, 1)), [0, 0, 0], [1.0, 2.0, 3.0], episodes=[0, 1, 2])
    with pytest.raises(ValueError, match="no row of the log says what came next"):
        LogSampler(log, seed=0)


def test_returns_are_discounted_to_the_end_of_the_episode():
    log = Transitions(np.zeros((4, 1)), [0] * 4, [1.0, 2.0, 4.0, 8.0], [False, True, False, False])
    np.testing.assert_allclose(returns_of(log, 0.5, 10), [2.0, 2.0, 8.0, 8.0])
    np.testing.assert_array_equal(log["reward"], [1.0, 2.0, 4.0, 8.0])
