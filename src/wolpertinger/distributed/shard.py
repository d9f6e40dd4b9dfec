"""One shard of a catalogue: a table of some of its rows, under the catalogue's ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.actions import ActionTable
from wolpertinger.actions.base import Actions
from wolpertinger.index import Store
from wolpertinger.index.base import Vectors
from wolpertinger.index.shortlist import Distances, pair_distances

IDS = "{}.ids.npy"  # beside a shard's file


@dataclass(frozen=True)
class Source:
    """Where rows `start` to `stop` of a catalogue come from: a file, vectors that are sent, or a saved shard."""

    start: int
    stop: int
    path: str | None = None
    whole: bool = False
    """Whether the file holds this shard's rows only."""
    saved: str | None = None

    def read(self, sent: Vectors | None) -> Vectors | None:
        """The rows, memory-mapped where they are in a file."""
        if self.path is None:
            return sent
        mapped = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return mapped if self.whole else mapped[self.start : self.stop]


@dataclass(frozen=True)
class Change:
    """Rows that were added with these ids, or, without vectors, removed."""

    ids: Actions
    vectors: Vectors | None = None


@dataclass(frozen=True)
class Facts:
    """What the catalogue must know of a shard."""

    n: int
    dim: int
    first: Actions
    """Ids of the rows of before anything was added."""
    late: Actions
    """Ids of the rows that were added."""
    removed: Actions


class Shard:
    """Ray makes it an actor; it knows nothing of Ray. All is built in `begin`, so that its errors reach the caller."""

    table: ActionTable
    ids: Actions
    """Of each row of the table, ascending: equal distances are in the same order by id as by row."""

    def begin(
        self, source: Source, sent: Vectors | None, options: Mapping[str, Any], changes: Sequence[Change]
    ) -> Facts:
        """Read or map the rows, and bring them up to date."""
        vectors = source.read(sent)
        if source.saved is not None:
            self.table = ActionTable.load(source.saved, vectors)
            self.ids = np.load(IDS.format(source.saved))
        else:
            assert vectors is not None
            self.table = ActionTable(Store(vectors), **options)
            self.ids = np.arange(source.start, source.stop)
        before = source.stop - source.start
        for change in changes:
            self.change(change)
        there = self.table.holds(np.arange(len(self.ids)))
        late = self.ids[before:]
        return Facts(self.table.n, self.table.dim, self.ids[:before], late, self.ids[~there])

    def change(self, change: Change) -> None:
        """Add or remove rows."""
        if change.vectors is None:
            self.table.remove(self._rows(change.ids))
        else:
            self.table.add(change.vectors)
            self.ids = np.concatenate([self.ids, change.ids])

    def search(self, points: Vectors, k: int) -> tuple[Actions, Distances]:
        """The k rows nearest to each point, or all: ids and squared distances (batch, at most k), nearest first."""
        rows = self.table.nearest_at_most(points, k)
        numbers = np.repeat(np.arange(len(rows)), rows.shape[1])
        distances = pair_distances(self.table._store, points.astype(np.float64), numbers, rows.ravel())
        return self.ids[rows], distances.reshape(rows.shape)

    def take(self, ids: Actions) -> Vectors:
        """Vectors (m, dim) of rows by their ids (m,)."""
        return self.table.embed(self._rows(ids))

    def bounds(self) -> npt.NDArray[np.float32]:
        """Smallest and largest coordinates (2, dim)."""
        return np.stack([self.table.low, self.table.high])

    def stats(self, k: int) -> dict[str, float | str]:
        """How the promised recall is kept."""
        return self.table.stats(k)

    def save(self, path: str, exclude: Sequence[str]) -> None:
        """Write the table and the ids of its rows."""
        self.table.save(Path(path), exclude)
        np.save(IDS.format(path), self.ids)

    def _rows(self, ids: Actions) -> Actions:
        return np.searchsorted(self.ids, ids)
