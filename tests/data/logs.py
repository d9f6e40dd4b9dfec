"""A small log as a dict of columns: three episodes of four, three and five rows, the last one cut."""

import numpy as np

from wolpertinger import Transitions

ARGUMENTS = {"observation": "observations", "action": "actions", "reward": "rewards", "episode": "episodes"}
ARGUMENTS |= {"next_observation": "next_observations", "time": "times", "propensity": "propensities"}


def small(**changes):
    """Columns by name, some of them changed or left out (None)."""
    episode = np.repeat([10, 11, 12], [4, 3, 5])
    columns = {
        "observation": np.arange(24.0).reshape(12, 2),
        "action": np.arange(12) % 5,
        "reward": np.arange(12.0),
        "terminated": np.isin(np.arange(12), [3, 6]),
        "truncated": np.arange(12) == 11,
        "episode": episode,
        "time": np.concatenate([np.arange(4), np.arange(3), np.arange(5)]),
        "propensity": np.full(12, 0.2),
        **changes,
    }
    return {name: column for name, column in columns.items() if column is not None}


def changed(name, row, value, dtype=None):
    """One entry of one column changed."""
    column = np.array(small()[name], dtype)
    column[row] = value
    return {name: column}


def make(**changes):
    """The small log from arrays."""
    return Transitions(**{ARGUMENTS.get(name, name): column for name, column in small(**changes).items()})


def as_lists(columns):
    """The same for pandas and Arrow: rows of several numbers as lists."""
    return {
        name: list(column) if isinstance(column, np.ndarray) and column.ndim > 1 else column
        for name, column in columns.items()
    }
