"""Kinds of damage, each with the error it gets; rows are named, and nothing is dropped."""

import numpy as np
import pytest

from tests.data.logs import changed, make, small
from wolpertinger import ActionIds, LogError

EPISODE_GOES_ON = np.where(np.arange(12) == 3, 11, small()["episode"])
DAMAGES = {
    "no rows": (
        {name: column[:0] for name, column in small().items()},
        "the log has no rows: give at least one transition",
    ),
    "columns of different lengths": ({"reward": np.arange(11.0)}, r"not of the same length .*reward 11"),
    "nothing says where episodes end": (
        {"terminated": None, "truncated": None, "episode": None},
        "nothing says where episodes end",
    ),
    "NaN reward": (changed("reward", 5, np.nan), "reward is NaN or infinite in row 5:"),
    "infinite reward": (changed("reward", [1, 2], np.inf), "reward is NaN or infinite in rows 1, 2:"),
    "reward too large for float32": (changed("reward", 4, 1e300), "reward is NaN or infinite in row 4:"),
    "NaN observation": (changed("observation", (7, 1), np.nan), "observation is NaN or infinite in row 7:"),
    "rewards of several numbers": ({"reward": np.ones((12, 2))}, r"rewards have shape \(12, 2\)"),
    "text for a reward": ({"reward": np.full(12, "1")}, "reward"),
    "action that is no whole number": (changed("action", 2, 0.5, float), "action is no whole number in row 2:"),
    "missing action": (changed("action", 8, np.nan, float), "action is no whole number in row 8:"),
    "flag that is no flag": (changed("terminated", 3, 2, int), "terminated is neither 0 nor 1 in row 3:"),
    "propensity of 0": (changed("propensity", 9, 0), r"propensity is not in \(0, 1\] in row 9:"),
    "propensity above 1": (changed("propensity", 0, 1.5), r"propensity is not in \(0, 1\] in row 0:"),
    "missing propensity": (changed("propensity", 1, np.nan), r"propensity is not in \(0, 1\] in row 1:"),
    "time that runs backwards": (changed("time", 2, -3.0, float), "time runs backwards in row 2:"),
    "timestamps that run backwards": (
        {"time": np.datetime64("2024-01-01") - np.arange(12)},
        "time runs backwards in rows 1, 2, 3, 5, 6 and 4 more:",
    ),
    "gap between steps": (changed("time", [9, 10, 11], [3, 4, 5]), "steps are missing before it in row 9:"),
    "repeated step": (changed("time", [1, 2, 3], [0, 1, 2]), "the same step comes twice in row 1:"),
    "episode in two pieces": (changed("episode", [0, 11], [12, 10]), "do not lie together"),
    "episode that goes on after its end": ({"episode": EPISODE_GOES_ON}, "the episode goes on after it ended in row"),
    "next observation of another row": (
        {"next_observation": small()["observation"]},
        "next_observation is not the next row's observation in rows 0, 1, 2, 4, 5 and 4 more:",
    ),
    "next observation of another shape": (
        {"next_observation": np.zeros((12, 3))},
        r"next observations have shape \(12, 3\), observations \(12, 2\)",
    ),
    "nothing allowed": (
        {"allowed": [[0]] + [[]] + [[action] for action in (np.arange(12) % 5)[2:]]},
        "allowed is empty in row 1:",
    ),
    "action that was not allowed": ({"allowed": [[0]] * 12}, "the action is not among those allowed in rows 1, 2, 3"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_log_is_refused_with_the_rows(kind):
    changes, error = DAMAGES[kind]
    with pytest.raises(LogError, match=error):
        make(**changes)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (changed("action", [2, 7], 99), r"action is not in ActionIds\(5\) \(such as 99\) in rows 2, 7:"),
        (changed("action", 4, -1), r"action is not in ActionIds\(5\) \(such as -1\) in row 4:"),
        ({"action": np.zeros((12, 2), int)}, r"actions have shape \(12, 2\), those of ActionIds\(5\) have \(n,\)"),
    ],
)
def test_actions_that_are_not_in_the_set_are_refused(changes, error):
    with pytest.raises(LogError, match=error):
        make(**changes).check(ActionIds(5))


def test_rows_are_named_beyond_the_first_block(monkeypatch):
    monkeypatch.setattr("wolpertinger.data.transitions.ROWS_AT_ONCE", 4)
    monkeypatch.setattr("wolpertinger.data.checking.ROWS_AT_ONCE", 4)
    with pytest.raises(LogError, match="time runs backwards in row 10:"):
        make(**changed("time", 10, 0))


def test_whole_numbers_as_floats_and_flags_as_numbers_are_taken():
    log = make(action=np.arange(12.0) % 5, terminated=np.isin(np.arange(12), [3, 6]).astype(float))
    assert log.rows(slice(0, 12)).actions.tolist() == [*(np.arange(11) % 5)]
    assert log.rows(slice(0, 12)).terminated.sum() == 2
