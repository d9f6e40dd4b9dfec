"""Batches of a log at random, in memory that does not grow with it."""

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from wolpertinger.data.transitions import Rows, Transitions

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
        self._block, self._order, self._drawn = block, np.empty(0, np.int64), 0
        row = 2 * log["observation"].dtype.itemsize * int(np.prod(log["observation"].shape[1:])) + 32
        count = max(1, min(len(self._starts), pool_bytes // (row * block)))
        self._blocks = [self._read() for _ in range(count)]
        self._oldest = 0
        self._join()

    @property
    def holds_all(self) -> bool:
        """Whether all of the log is in memory."""
        return len(self._blocks) == len(self._starts)

    def sample(self, size: int) -> Rows:
        """A batch of transitions, drawn uniformly from the pool."""
        if not self.holds_all and self._drawn >= self._block:
            self._replace()
        self._drawn += size
        chosen = self._rng.integers(len(self._pool.number), size=size)
        return Rows(*(getattr(self._pool, field.name).take(chosen, axis=0) for field in fields(Rows)))

    def _read(self) -> Rows:
        if not self._order.size:
            self._order = self._rng.permutation(self._starts)
        start, self._order = int(self._order[0]), self._order[1:]
        return self.log.rows(slice(start, min(start + self._block, len(self.log))))

    def _join(self) -> None:
        parts = {field.name: [getattr(block, field.name) for block in self._blocks] for field in fields(Rows)}
        self._pool = Rows(**{name: np.concatenate(part) for name, part in parts.items()})
        self._offsets = np.concatenate([[0], np.cumsum([len(block.number) for block in self._blocks])])
        self._blocks = self._blocks if not self.holds_all else [self._pool] * len(self._blocks)

    def _replace(self) -> None:
        self._drawn -= self._block
        new, place = self._read(), self._oldest
        start, stop = self._offsets[place], self._offsets[place + 1]
        self._oldest = (place + 1) % len(self._blocks)
        if len(new.number) == stop - start:  # in place
            for field in fields(Rows):
                getattr(self._pool, field.name)[start:stop] = getattr(new, field.name)
            self._blocks[place] = new
            return
        self._blocks[place] = new
        self._join()


def returns_of(log: Transitions, gamma: float, rows: int) -> npt.NDArray[np.float64]:
    """What followed each of the log's first `rows` rows, discounted, to the end of its episode."""
    part = slice(0, min(rows, len(log)))
    returns = np.asarray(log["reward"][part], np.float64)
    ends = np.asarray(log.ends[part])
    for row in range(len(returns) - 2, -1, -1):
        if not ends[row]:
            returns[row] += gamma * returns[row + 1]
    return returns
