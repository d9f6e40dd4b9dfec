"""The forms that a log's columns have: flags, ragged lists, rows as transitions."""

import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.data.checking import LogError
from wolpertinger.index import as_array
from wolpertinger.settings import show

MAPPED_FROM = 2**24  # rows from which on flags of our own are on disk

Array = npt.NDArray[Any]
Ragged = tuple[Array, Array]
"""Ids side by side, and where each row's begin and end (rows + 1,)."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a log as transitions."""

    number: npt.NDArray[np.int64]
    """Of each row in the log."""
    obs: Array
    actions: npt.NDArray[np.int64]
    rewards: npt.NDArray[np.float32]
    next_obs: Array
    terminated: npt.NDArray[np.bool_]


def no_flags(n: int) -> npt.NDArray[np.bool_]:
    """As many False, memory-mapped where they are many."""
    if n < MAPPED_FROM:
        return np.zeros(n, np.bool_)
    with tempfile.TemporaryFile() as file:
        file.truncate(n)
        return np.memmap(file, np.bool_, shape=(n,))


def read_ragged(given: Any) -> Ragged:
    """A list of ids for each row, or what is ragged already."""
    if isinstance(given, tuple) and len(given) == 2 and np.ndim(given[1]) == 1:
        values, offsets = as_array("allowed", given[0]), as_array("allowed", given[1])
        if offsets.dtype.kind in "iu" and len(offsets) and offsets[0] == 0 and offsets[-1] == len(values):
            return values, offsets
    try:
        rows = [np.asarray(row).reshape(-1) for row in given]
    except (TypeError, ValueError) as error:
        raise LogError(f"allowed={show(given)}: give a list of ids for each row") from error
    filled = [row for row in rows if row.size] or [np.empty(0, np.int64)]
    return np.concatenate(filled), np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
