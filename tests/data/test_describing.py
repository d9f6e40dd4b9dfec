import numpy as np

from tests.data.logs import make
from wolpertinger.data.describing import describe


def test_a_log_is_described(monkeypatch):
    found = describe(make(reward=np.array([0.0, 1, 0, 2, 0, 0, 5, 0, 0, 0, 0, 1])))
    assert (found.rows, found.episodes, found.unusable) == (12, 3, 1)
    assert found.lengths.tolist() == [4, 3, 5]
    assert found.returns.tolist() == [3.0, 5.0, 1.0]
    assert found.rewarded == 4 / 12
    assert found.actions.tolist() == [0, 1, 2, 3, 4]
    assert found.counts.tolist() == [3, 3, 2, 2, 2]
    assert found.propensities == (0.2, 0.2)
    assert found.allowed is None


def test_episodes_and_actions_reach_over_parts(monkeypatch):
    log = make()
    whole = describe(log)
    monkeypatch.setattr(type(log), "parts", lambda self, size=0: (slice(i, min(i + 5, 12)) for i in range(0, 12, 5)))
    parts = describe(log)
    for name in ("lengths", "returns", "actions", "counts"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_digits_are_counted_as_one_action():
    digits = np.stack([np.arange(12) % 2, np.arange(12) % 3], axis=1)
    found = describe(make(action=digits))
    assert found.actions.shape == (6, 2)
    assert found.counts.tolist() == [2] * 6


def test_allowed_actions_are_counted():
    assert describe(make(allowed=[[action, 7] for action in np.arange(12) % 5])).allowed == 2
