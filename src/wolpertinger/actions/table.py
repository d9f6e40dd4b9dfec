"""An action set given as a table: one vector per action."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger import archive
from wolpertinger.actions import table_files
from wolpertinger.actions.base import Actions, ActionSet, check_draw
from wolpertinger.index import LookupStats, Store, TunedIndex, TuningResult, build, check_ids, read_ids
from wolpertinger.index.store import Rows
from wolpertinger.index.tune import BATCH, BUILD_SECONDS
from wolpertinger.settings import check_number

KIND = "wolpertinger action table"
HASHED_ROWS = 1 << 16  # at a time


class ActionTable(ActionSet):
    """Actions, each with a row of `vectors` (n, dim), and an index that finds the rows nearest to a point.

    :param vectors: float32 in C order is used without a copy, memory-mapped or not: do not change it afterwards.
    :param index: "exact" (default), a FAISS recipe, or "auto": whatever keeps a recall (0.99) fastest.
    :param recall: least share of the true neighbours that a lookup finds on average, or "slow" (0.99), "medium" (0.9),
        "fast" (0.7) as in the paper. The index is chosen and tuned by measuring at the first lookup, checked during the
        lookups that follow, and tuned again when it falls short, and for another k once there are more than single
        lookups for it. With a recipe, only that one's settings are tuned.
    :param build_seconds: the most time to spend on building indexes in one tuning.

    Actions can be added and removed, also while other threads look up; the others keep their ids.
    """

    kind = "table"
    is_changeable = True

    def __init__(
        self,
        vectors: npt.ArrayLike | Store,
        *,
        index: str | None = None,
        recall: float | str | None = None,
        build_seconds: float = BUILD_SECONDS,
        _built: Mapping[str, npt.NDArray[np.uint8]] | None = None,
    ) -> None:
        self._store = vectors if isinstance(vectors, Store) else Store(vectors)
        self._index = build(index, self._store, recall=recall, build_seconds=build_seconds, built=_built)
        self._index_name = index or ("exact" if recall is None else "auto")
        self._of_version: tuple[int, dict[str, Any]] = (-1, {})

    @property
    def space(self) -> spaces.Discrete:
        """The ids of the actions, also of removed ones."""
        return self._cached("space", lambda rows: spaces.Discrete(rows.size))

    @property
    def n(self) -> int:
        """Number of actions."""
        return self._store.n

    @property
    def dim(self) -> int:
        """Length of an action's vector."""
        return self._store.dim

    @property
    def index(self) -> str:
        """The index it was made with: "exact", "auto" or a FAISS recipe."""
        return self._index_name

    @property
    def recall(self) -> float | None:
        """The promised recall, if one was asked for."""
        return self._index.recall if isinstance(self._index, TunedIndex) else None

    @property
    def version(self) -> int:
        """Changes whenever actions are added or removed; 0 at first."""
        return self._store.version

    @property
    def ids(self) -> Actions:
        """The ids (n,) of the actions that are there."""
        return self._store.ids

    @property
    def vectors(self) -> npt.NDArray[np.float32]:
        """The vectors by id (ids ever given, dim), read-only."""
        return self._cached("vectors", lambda rows: _read_only(rows.vectors()))

    @property
    def low(self) -> npt.NDArray[np.float32]:
        """Smallest coordinate of any action, per dimension (dim,)."""
        return self._cached("low", lambda rows: rows.reduce(np.minimum))

    @property
    def high(self) -> npt.NDArray[np.float32]:
        """Largest coordinate of any action, per dimension (dim,)."""
        return self._cached("high", lambda rows: rows.reduce(np.maximum))

    @property
    def sha256(self) -> str:
        """Fingerprint of the actions: type, shape and bytes of the vectors, and which were removed."""
        return self._cached("sha256", _hash)

    def first_sha256(self, count: int) -> str | None:
        """Fingerprint of the first `count` rows, as if none had been removed; None: there are fewer."""
        if count > self._store.size:
            return None
        digest = _digest(count, self.dim)
        for start in range(0, count, HASHED_ROWS):
            rows = self._store.take(np.arange(start, min(start + HASHED_ROWS, count)))
            digest.update(np.ascontiguousarray(rows).data)
        return digest.hexdigest()

    @property
    def health(self) -> list[LookupStats]:
        """How the promised recall is kept, for each k that was looked up; empty without a promise."""
        return self._index.stats() if isinstance(self._index, TunedIndex) else []

    @property
    def tuning_seconds(self) -> float:
        """Spent on choosing and tuning the index, in all; 0 without a promise."""
        return self._index.tuning_seconds if isinstance(self._index, TunedIndex) else 0.0

    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Vectors (..., dim) of the actions with these ids (...), also of removed ones."""
        return self._store.take(check_ids(actions, self._store.size))

    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """Ids (batch, k) of the distinct actions closest to each proto-action (batch, dim), nearest first."""
        return self._index.search(protos, k)

    def holds(self, actions: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which of these ids (...) are there, and were not removed."""
        return self._store.holds(read_ids(actions))

    def sample(self, rng: np.random.Generator, n: int) -> Actions:
        """Ids (n,) drawn uniformly from the actions that are there."""
        check_draw(rng, n, 1)
        rows = self._store.now()
        drawn = rng.integers(rows.n, size=n)
        return drawn if rows.n == rows.size else rows.ids[drawn]

    def blocks(self, size: int) -> Iterator[Actions]:
        """The ids of all actions that are there, in blocks of at most `size`."""
        check_number("size", size, least=1, whole=True)
        ids = self.ids
        return (ids[start : start + size] for start in range(0, len(ids), size))

    def stats(self, k: int) -> dict[str, float | str]:
        """How the promised recall is kept for k, and what tuning took so far; empty without a promise."""
        found: dict[str, float | str] = {}
        for health in (health for health in self.health if health.k == k):
            found = {"checked": health.checked, "tunings": health.tunings, "index": health.index}
            found |= {} if health.recall is None else {"recall": health.recall}
        return found | ({} if self.recall is None else {"tuning_seconds": self.tuning_seconds})

    def tune(self, protos: npt.ArrayLike, k: int, *, batch: int = BATCH) -> TuningResult:
        """Choose the index for k now, on these proto-actions; the result lists all that was tried."""
        if not isinstance(self._index, TunedIndex):
            raise ValueError(f"index={self._index_name!r} promises no recall: make the table with recall=0.99, say")
        return self._index.tune(protos, k, batch=batch)

    def add(self, vectors: npt.ArrayLike) -> Actions:
        """New actions with these vectors (new, dim); returns their ids, which follow those of the others."""
        return self._store.add(vectors)

    def remove(self, actions: npt.ArrayLike) -> None:
        """Take actions out: no lookup finds them any more, and their ids are not given again."""
        self._store.remove(actions)

    def only(self, actions: Actions) -> "ActionTable":
        """A table of just these actions, over the same vectors and under the same ids."""
        table = ActionTable(self._store.vectors(), index=self._index_name, recall=self.recall)
        kept = np.isin(np.arange(self._store.size), actions) & self.holds(np.arange(self._store.size))
        table.remove(np.flatnonzero(~kept))
        return table

    def save(self, path: archive.Target, exclude: Iterable[str] = ()) -> None:
        """Write vectors, index and tuning to one file with checksums; `exclude=["vectors"]` leaves out the vectors."""
        archive.write(path, KIND, self.to_files(exclude))

    @classmethod
    def load(cls, path: archive.Target, vectors: npt.ArrayLike | None = None) -> Self:
        """A table from a file that `save` wrote. Give `vectors` (memory-mapped, say) if the file has none."""
        return cls.from_files(archive.read(path, KIND), vectors)

    def to_files(self, exclude: Iterable[str] = ()) -> dict[str, archive.Buffer]:
        """All that `from_files` needs, by name: what `save` writes, and what an agent's file holds of its actions."""
        return table_files.describe(self, exclude)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], vectors: npt.ArrayLike | None = None) -> Self:
        """A table from what `to_files` gave."""
        return table_files.restore(cls, files, vectors)

    def __reduce__(self) -> tuple[Any, ...]:  # to be sent to another process
        return type(self).from_files, ({name: bytes(data) for name, data in self.to_files().items()},)

    def __repr__(self) -> str:
        promised = "" if self.recall is None else f", recall={self.recall:g}"
        return f"ActionTable(n={self.n}, dim={self.dim}, index={self._index_name!r}{promised})"

    def _cached(self, name: str, work: Callable[[Rows], Any]) -> Any:
        """What `work` made of the rows, until actions are added or removed."""
        rows, (version, known) = self._store.now(), self._of_version
        if version != rows.version:
            self._of_version = _, known = rows.version, {}
        if name not in known:
            known[name] = work(rows)
        return known[name]


def _digest(size: int, dim: int) -> Any:
    return hashlib.sha256(f"{np.dtype(np.float32).str} {(size, dim)}".encode())


def _hash(rows: Rows) -> str:
    digest = _digest(rows.size, rows.dim)
    for block in rows.blocks(HASHED_ROWS):
        digest.update(np.ascontiguousarray(rows.rows(block)).data)
    if len(removed := rows.removed):
        digest.update(removed.tobytes())
    return digest.hexdigest()


def _read_only(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    view = vectors.view()
    view.flags.writeable = False
    return view
