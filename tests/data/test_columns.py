import pytest

from wolpertinger import Columns, LogError


def test_columns_are_found_by_name_or_spread_over_numbers():
    there = ["observation_1", "observation_0", "action", "clicks", "episode", "colour"]
    assert Columns(reward="clicks").find(there) == {
        **{"observation": ["observation_0", "observation_1"], "action": "action", "reward": "clicks"},
        "episode": "episode",
    }


@pytest.mark.parametrize(
    ("columns", "there", "error"),
    [
        ({}, ["observation", "action", "episode"], r"no column 'reward' \(reward\): there are observation, action"),
        ({"time": "when"}, ["observation", "action", "reward", "episode"], "no column 'when'"),
        ({}, ["observation", "action", "reward"], "nothing says where episodes end"),
        ({}, ["observation_0", "observation_2", "action", "reward", "episode"], "no column observation_1"),
    ],
)
def test_what_is_missing_is_named(columns, there, error):
    with pytest.raises(LogError, match=error):
        Columns(**columns).find(there)


@pytest.mark.parametrize(
    ("columns", "error"),
    [({"reward": 3}, "reward=3: give the name"), ({"reward": "action"}, "'action' is named for two things")],
)
def test_names_are_checked(columns, error):
    with pytest.raises(LogError, match=error):
        Columns(**columns)
