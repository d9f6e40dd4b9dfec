"""Batches of a log at random, in memory that does not grow with it."""

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.data.arrays import Rows
from wolpertinger.data.transitions import Transitions

BLOCK = 2**13  # rows that are read together
POOL_BYTES = 2**28  # of the rows that batches are drawn from


class LogSampler:
    """Draws from a pool of blocks of the log, of which one is replaced whenever as many rows as it has were drawn.

    A log that fits into the pool is in it as a whole. Blocks come in random order, each once before any comes again.
    """

    def __init__(self, log: Transitions, seed: int | None, *, pool_bytes: int = POOL_BYTES, block: int = BLOCK) -> None:
        if log.n_unusable == len(log):
            raise ValueError(
                "no row of the log says what came next: give next_observations, or longer episodes, or terminated"
            )
        self.log, self._rng = log, np.random.default_rng(seed)
        self._starts = np.arange(0, len(log), block)
        self._block, self._order, self._drawn, self._next = block, np.empty(0, np.int64), 0, 0
        row = 2 * log["observation"].dtype.itemsize * int(np.prod(log["observation"].shape[1:])) + 32
        self._slots = max(1, min(len(self._starts), pool_bytes // (row * block)))
        self._counts = np.zeros(self._slots, np.int64)  # rows in each slot of the pool
        first = self._read()
        self._pool = Rows(*(_room(getattr(first, field.name), self._slots * block) for field in fields(Rows)))
        self._put(first)
        for _ in range(self._slots - 1):
            self._put(self._read())

    @property
    def holds_all(self) -> bool:
        """Whether all of the log is in memory."""
        return self._slots == len(self._starts)

    def sample(self, size: int) -> Rows:
        """A batch of transitions, drawn uniformly from the pool."""
        while not self.holds_all and self._drawn >= self._block:
            self._drawn -= self._block
            self._put(self._read())
        self._drawn += size
        chosen = self._places[self._rng.integers(len(self._places), size=size)]
        return Rows(*(getattr(self._pool, field.name).take(chosen, axis=0) for field in fields(Rows)))

    def _read(self) -> Rows:
        if not self._order.size:
            self._order = self._rng.permutation(self._starts)
        start, self._order = int(self._order[0]), self._order[1:]
        return self.log.rows(slice(start, min(start + self._block, len(self.log))))

    def _put(self, rows: Rows) -> None:
        """Into the slot whose turn it is."""
        slot, count = self._next, len(rows.number)
        first = slot * self._block
        for field in fields(Rows):
            getattr(self._pool, field.name)[first : first + count] = getattr(rows, field.name)
        self._next = (slot + 1) % self._slots
        if self._counts[slot] != count:
            self._counts[slot] = count
            places = [slot * self._block + np.arange(own) for slot, own in enumerate(self._counts)]
            self._places = np.concatenate(places)


def _room(like: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    return np.empty((rows, *like.shape[1:]), like.dtype)


def returns_of(log: Transitions, gamma: float, rows: int) -> npt.NDArray[np.float64]:
    """What followed each of the log's first `rows` rows, discounted, to the end of its episode."""
    part = slice(0, min(rows, len(log)))
    returns = np.array(log["reward"][part], np.float64)  # a copy, which is added to
    ends = np.asarray(log.ends[part])
    for row in range(len(returns) - 2, -1, -1):
        if not ends[row]:
            returns[row] += gamma * returns[row + 1]
    return returns
