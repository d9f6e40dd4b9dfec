"""A catalogue that does not fit one machine: a table in shards, each an actor on Ray."""

import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions.base import Actions, ActionSet, check_draw
from wolpertinger.atomic import write_bytes
from wolpertinger.distributed.cluster import connect
from wolpertinger.distributed.cutting import (
    FILE,
    FORMAT,
    MANIFEST,
    Lookup,
    Part,
    cut,
    join_stats,
    merge,
    read_manifest,
    saved_parts,
)
from wolpertinger.distributed.shard import Change
from wolpertinger.distributed.shards import Shards, ShardUnavailableError
from wolpertinger.index import check_ids, read_ids
from wolpertinger.index.base import check_k, check_queries, check_vectors
from wolpertinger.index.tune import BUILD_SECONDS, check_recall
from wolpertinger.settings import check_choice, check_number

WAIT = 30.0  # seconds
STATS_SECONDS = 5.0  # that statistics are old at most

logger = logging.getLogger("wolpertinger")


class ShardedTable(ActionSet):
    """Actions with a vector each, as in `ActionTable`, in shards on Ray that answer lookups together.

    :param vectors: an array (n, dim); or the path of a .npy file, of which each shard maps its own rows; or paths, one
        per shard. Paths must be readable where the shards are.
    :param shards: how many; for several paths so many as there are.
    :param index: of each shard, as in `ActionTable`, and so `recall`, which each shard keeps, and `build_seconds`.
    :param replicas: actors per shard, which answer in turn, and for one another where one is lost.
    :param incomplete: what to do where a shard does not answer in time: "refuse" with a `ShardUnavailableError`, or
        "flag": answer by the others, with a warning in the log, and `missing` in what `search` returns.
    :param wait: seconds that a lookup waits for a shard that was lost, and is begun anew, before that.
    :param address: of a Ray cluster, as in `train`.
    :param resources: of each shard's actor, as Ray's `options` takes them: {"num_cpus": 1, "memory": 2**33}.
    """

    is_changeable = True

    def __init__(
        self,
        vectors: npt.ArrayLike | str | Path | Sequence[str | Path],
        *,
        shards: int | None = None,
        index: str | None = None,
        recall: float | str | None = None,
        build_seconds: float = BUILD_SECONDS,
        replicas: int = 1,
        incomplete: str = "refuse",
        wait: float = WAIT,
        address: str | None = None,
        resources: Mapping[str, Any] | None = None,
        _parts: list[Part] | None = None,
    ) -> None:
        check_number("shards", shards, least=1, whole=True, optional=True)
        check_number("replicas", replicas, least=1, whole=True)
        check_choice("incomplete", incomplete, ("refuse", "flag"))
        check_number("wait", wait)
        self.recall = None if recall is None else check_recall(recall)
        self.incomplete = incomplete
        """What is done where a shard does not answer."""
        options = {"index": index, "recall": self.recall, "build_seconds": build_seconds}
        parts = cut(vectors, shards) if _parts is None else _parts
        ray = connect(address, "a table in shards", processors=len(parts) * replicas)
        sources = [(source, None if own is None else ray.put(own)) for source, own in parts]
        own: dict[str, Any] = {"replicas": replicas, "wait": wait, "resources": dict(resources or {})}
        self._shards = Shards(ray, sources, options, **own)
        self._learn_facts()
        self._lock = threading.RLock()
        self._version = 0
        self._bounds: tuple[int, npt.NDArray[np.float32]] | None = None
        self._stats: dict[int, tuple[float, dict[str, float | str]]] = {}

    def _learn_facts(self) -> None:
        facts = self._shards.facts()
        if len(dims := {own.dim for own in facts}) > 1:
            raise ValueError(f"the shards have vectors of {sorted(dims)} dimensions: give files of the same width")
        self._dim, count = dims.pop(), sum(len(own.first) for own in facts)
        self._starts = np.cumsum([0, *(len(own.first) for own in facts)])[:-1]
        late = np.concatenate([own.late for own in facts])
        self._homes = np.empty(len(late), np.int64)  # the shard of each added row
        for number, own in enumerate(facts):
            self._homes[own.late - count] = number
        self._first, self._size = count, count + len(late)
        self._removed = np.sort(np.concatenate([own.removed for own in facts]))

    @property
    def shards(self) -> int:
        """How many there are."""
        return len(self._shards.places)

    @property
    def revived(self) -> int:
        """How often a shard was lost and begun anew."""
        return sum(place.revived for place in self._shards.places)

    @property
    def space(self) -> spaces.Discrete:
        """The ids of the actions, also of removed ones."""
        return spaces.Discrete(self._size)

    @property
    def n(self) -> int:
        """Number of actions."""
        return self._size - len(self._removed)

    @property
    def dim(self) -> int:
        """Length of an action's vector."""
        return self._dim

    @property
    def version(self) -> int:
        """Changes whenever actions are added or removed; 0 at first."""
        return self._version

    @property
    def low(self) -> npt.NDArray[np.float32]:
        """Smallest coordinate of any action, per dimension (dim,)."""
        return self._extremes()[0]

    @property
    def high(self) -> npt.NDArray[np.float32]:
        """Largest coordinate of any action, per dimension (dim,)."""
        return self._extremes()[1]

    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """Ids (batch, k) of the distinct actions closest to each proto-action (batch, dim), nearest first."""
        return self.search(protos, k).ids

    def search(self, protos: npt.ArrayLike, k: int) -> Lookup:
        """`nearest` with squared distances, and with the numbers of the shards that are missing from the answer."""
        k, points = check_k(k, self.n), check_queries(protos, self.dim)
        everyone = dict.fromkeys(range(self.shards), (points, k))
        answers = self._shards.ask("search", everyone)
        missing = tuple(sorted(everyone.keys() - answers.keys()))
        found = sum(ids.shape[1] for ids, _ in answers.values())
        if missing and (self.incomplete == "refuse" or found < k):
            raise self._unavailable(missing)
        if missing:
            logger.warning("a lookup was answered without %s of %d shards", list(missing), self.shards)
        if found < k:  # removed by another thread since
            raise ValueError(f"k={k} is out of range for {found} actions: some were removed meanwhile")
        return Lookup(*merge(list(answers.values()), k), missing)

    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Vectors (..., dim) of the actions with these ids (...), also of removed ones."""
        ids = check_ids(actions, self._size)
        wanted, place = np.unique(ids, return_inverse=True)
        homes, vectors = self._homes_of(wanted), np.empty((len(wanted), self.dim), np.float32)
        questions = {int(number): (wanted[homes == number],) for number in np.unique(homes)}
        answers = self._shards.ask("take", questions)
        if missing := tuple(sorted(questions.keys() - answers.keys())):
            raise self._unavailable(missing)
        for number, own in answers.items():
            vectors[homes == number] = own
        return vectors[place.reshape(ids.shape)]

    def holds(self, actions: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which of these ids (...) are there, and were not removed."""
        ids = read_ids(actions)
        return (ids >= 0) & (ids < self._size) & ~self._is_removed(ids)

    def sample(self, rng: np.random.Generator, n: int) -> Actions:
        """Ids (n,) drawn uniformly from the actions that are there."""
        check_draw(rng, n, 1)
        drawn = rng.integers(self._size, size=n)
        while (gone := self._is_removed(drawn)).any():
            drawn[gone] = rng.integers(self._size, size=int(gone.sum()))
        return drawn

    def blocks(self, size: int) -> Iterator[Actions]:
        """The ids of all actions that are there, in blocks of at most `size`."""
        check_number("size", size, least=1, whole=True)
        ranges = (np.arange(start, min(start + size, self._size)) for start in range(0, self._size, size))
        kept = (block[~self._is_removed(block)] for block in ranges)
        return (block for block in kept if len(block))

    def add(self, vectors: npt.ArrayLike) -> Actions:
        """New actions with these vectors (new, dim), in the shard that has fewest; returns their ids."""
        rows = check_vectors(vectors)
        if rows.shape[1] != self.dim:
            raise ValueError(f"vectors have {rows.shape[1]} dimensions: give (n, {self.dim}), as the others have")
        with self._lock:
            number = min(range(self.shards), key=lambda each: self._shards.places[each].n)
            ids = np.arange(self._size, self._size + len(rows))
            self._shards.change(number, Change(ids, rows))
            self._homes = np.concatenate([self._homes, np.full(len(rows), number)])
            self._size, self._version = self._size + len(rows), self._version + 1
        return ids

    def remove(self, actions: npt.ArrayLike) -> None:
        """Take actions out: no lookup finds them any more, and their ids are not given again. Each shard keeps one."""
        with self._lock:
            gone = np.unique(check_ids(actions, self._size))
            if not (there := self.holds(gone)).all():
                raise ValueError(f"id {gone[~there][0]} was removed already")
            homes = self._homes_of(gone)
            numbers, counts = np.unique(homes, return_counts=True)
            for number, count in zip(numbers, counts, strict=True):
                if count >= self._shards.places[number].n:
                    raise ValueError(f"{count} ids to remove are all of shard {number}: at least one must stay")
            for number in numbers:
                self._shards.change(int(number), Change(gone[homes == number]))
            self._removed = np.union1d(self._removed, gone)
            self._version += 1

    def stats(self, k: int) -> dict[str, float | str]:
        """The least recall of any shard for k, and the sum of what was checked and tuned; empty without a promise."""
        if self.recall is None:
            return {}
        asked_at, known = self._stats.get(k, (-STATS_SECONDS, {}))
        if time.monotonic() - asked_at >= STATS_SECONDS:
            answers = list(self._shards.ask("stats", dict.fromkeys(range(self.shards), (k,))).values())
            known = join_stats(answers)
            self._stats[k] = time.monotonic(), known
        return known

    def save(self, folder: str | Path, exclude: Iterable[str] = ()) -> None:
        """Each shard writes its own file into the folder, which all machines must see; `exclude=["vectors"]` leaves
        the vectors out, which `load` is then given.
        """
        folder = Path(folder).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            paths = {number: (str(folder / FILE.format(number)), tuple(exclude)) for number in range(self.shards)}
            written = self._shards.ask("save", paths)
            if missing := tuple(sorted(paths.keys() - written.keys())):
                raise self._unavailable(missing)
            ends = [*map(int, self._starts), self._first]
        write_bytes(folder / MANIFEST, json.dumps({"format": FORMAT, "ends": ends, "recall": self.recall}).encode())

    @classmethod
    def load(cls, folder: str | Path, vectors: Any = None, **options: Any) -> Self:
        """A table from a folder that `save` wrote; `vectors`, as they were given, if it left them out. Other options
        are those of a new one.
        """
        whole = Path(folder).absolute()
        ends, recall = read_manifest(whole)
        return cls(vectors, recall=recall, _parts=saved_parts(whole, ends, vectors), **options)

    def close(self) -> None:
        """End the shards' actors; without it they end with the table."""
        self._shards.close()

    def __repr__(self) -> str:
        promised = "" if self.recall is None else f", recall={self.recall:g}"
        return f"ShardedTable(n={self.n}, dim={self.dim}, shards={self.shards}{promised})"

    def _extremes(self) -> npt.NDArray[np.float32]:
        if self._bounds is None or self._bounds[0] != self._version:
            version = self._version
            answers = self._shards.ask("bounds", dict.fromkeys(range(self.shards), ()))
            if len(answers) < self.shards:
                raise self._unavailable(tuple(sorted(set(range(self.shards)) - answers.keys())))
            parts = np.stack(list(answers.values()))
            self._bounds = version, np.stack([parts[:, 0].min(axis=0), parts[:, 1].max(axis=0)])
        return self._bounds[1]

    def _homes_of(self, ids: Actions) -> Actions:
        homes = np.searchsorted(self._starts, ids, side="right") - 1
        late = ids >= self._first
        homes[late] = self._homes[ids[late] - self._first]
        return homes

    def _is_removed(self, ids: Actions) -> npt.NDArray[np.bool_]:
        if not len(self._removed):
            return np.zeros(ids.shape, np.bool_)
        place = np.minimum(np.searchsorted(self._removed, ids), len(self._removed) - 1)
        return self._removed[place] == ids

    def _unavailable(self, missing: tuple[int, ...]) -> ShardUnavailableError:
        names = ", ".join(map(str, missing))
        return ShardUnavailableError(
            missing, f"no answer from shard {names} of {self.shards}: it is begun anew, ask again"
        )
