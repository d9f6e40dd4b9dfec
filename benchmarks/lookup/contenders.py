"""The libraries that lookup is measured against, each behind the same few verbs. All search on one thread."""

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from wolpertinger.index import Ids
from wolpertinger.index.base import Vectors
from wolpertinger.threads import count_threads

STEP = 1.4  # between one effort and the next
AUTOTUNE_ROWS = 5_000  # FLANN cannot be stopped: on a million rows of 40 numbers it had not ended after 16 minutes
SEED = 1
PAPER_CHECKS = (1, 39)  # of FLANN, in the paper
LINEAR, KD_TREES, K_MEANS_TREE, AUTOTUNED = 0, 1, 2, 255  # FLANN's own numbers


class Contender(Protocol):
    """A library's index at one build; `effort` says what its settings count."""

    name: str
    effort: str

    def build(self, vectors: Vectors) -> None:
        """Index the rows of `vectors`, on as many cores as the library likes."""

    def settings(self, k: int) -> list[int]:
        """Efforts from the quickest to the most careful; any number between two of them is a setting too."""

    def search(self, queries: Vectors, k: int, setting: int) -> Ids:
        """Ids (batch, k), -1 where it found no more."""

    @property
    def note(self) -> str:
        """What there is to say about the build, or nothing."""


def efforts(first: int, last: int, extra: Iterable[int] = ()) -> list[int]:
    """Whole numbers from `first` to `last` in steps of a factor of at most STEP, and the `extra` ones up to `last`."""
    steps, step = {number for number in extra if number <= last}, first
    while step < last:
        steps.add(step)
        step = ceil(step * STEP)
    return sorted(steps | {last})


@dataclass
class Flann:
    """FLANN as OpenCV ships it; the effort is the number of rows it looks at."""

    name: str
    parameters: dict[str, Any]
    effort: str = "checks"
    note: str = ""
    own_checks: int | None = None  # the effort that the autotuned index chose for itself
    _vectors: Vectors | None = None
    _index: Any = None

    def build(self, vectors: Vectors) -> None:
        cv2 = import_module("cv2")
        cv2.setNumThreads(1)
        cv2.setRNGSeed(SEED)
        self._vectors = np.require(vectors, requirements=["C", "W"])  # FLANN keeps a pointer to it, so it must stay
        if self.parameters["algorithm"] != AUTOTUNED:
            self._index = cv2.flann.Index(self._vectors, self.parameters)
            return
        some = np.random.default_rng(SEED).permutation(len(vectors))[:AUTOTUNE_ROWS]
        sample = self._vectors if len(vectors) <= AUTOTUNE_ROWS else np.ascontiguousarray(vectors[np.sort(some)])
        self._index = cv2.flann.Index(sample, self.parameters)
        self.note, self.own_checks, chosen = self._read_choice()
        if sample is not self._vectors:
            self.note += f" on {len(sample):,} of the rows; that was then built on all"
            self._index = cv2.flann.Index(self._vectors, chosen)

    def settings(self, k: int) -> list[int]:
        assert self._vectors is not None
        # It goes on until it has k, so fewer checks than k differ little.
        own = [] if self.own_checks is None else [max(1, self.own_checks)]
        return efforts(k, len(self._vectors), extra=(*PAPER_CHECKS, *own))

    def search(self, queries: Vectors, k: int, setting: int) -> Ids:
        ids, _ = self._index.knnSearch(queries, k, params={"checks": setting})
        return np.asarray(ids, np.int64)

    def _read_choice(self) -> tuple[str, int, dict[str, Any]]:
        """What the autotuned index chose, its checks, and the parameters to build that: only its file tells."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "index"
            self._index.save(str(path))
            with path.open("rb") as file:
                file.seek(60)  # behind the header; a scan has no parameters, and its file ends earlier
                kind, first, second = np.frombuffer(file.read(12).ljust(12, b"\0"), np.int32)
                file.seek(-4, 2)
                checks = int(np.frombuffer(file.read(4), np.int32)[0])
        chosen = {
            LINEAR: "a scan",
            KD_TREES: f"{first} k-d tree(s)",
            K_MEANS_TREE: f"a k-means tree, branching {first}, {second} iterations",
        }.get(int(kind), f"algorithm {kind}")
        parameters = {
            K_MEANS_TREE: {"branching": int(first), "iterations": int(second)},
            KD_TREES: {"trees": int(first)},
        }.get(int(kind), {})
        return f"chose {chosen} and {checks} checks for itself", checks, {"algorithm": int(kind), **parameters}


@dataclass
class Hnswlib:
    """hnswlib; the effort is the width of the beam, at least k.

    That is no reason to leave it out for large k: for 10,000 of 100,000 rows in 20 dimensions it took 8 to 11 ms a
    query at a recall of 0.995 or more, where FLANN's k-means tree took 11 to 22 ms.
    """

    name: str = "hnswlib"
    effort: str = "ef"
    note: str = ""
    _index: Any = None

    def build(self, vectors: Vectors) -> None:
        self._index = import_module("hnswlib").Index("l2", vectors.shape[1])
        self._index.init_index(len(vectors), M=16, ef_construction=100, random_seed=SEED)
        self._index.add_items(vectors)

    def settings(self, k: int) -> list[int]:
        return efforts(k, max(k, self._index.element_count))

    def search(self, queries: Vectors, k: int, setting: int) -> Ids:
        self._index.set_ef(setting)
        try:
            ids, _ = self._index.knn_query(queries, k, num_threads=1)
        except RuntimeError:  # it found fewer than k for one of the queries, and then says nothing about any
            return np.full((len(queries), k), -1, np.int64)
        return ids.astype(np.int64)


@dataclass
class Usearch:
    """usearch; the effort is the width of the beam, at least k."""

    name: str = "usearch"
    effort: str = "expansion"
    note: str = ""
    _index: Any = None

    def build(self, vectors: Vectors) -> None:
        index = import_module("usearch.index").Index
        self._index = index(
            ndim=vectors.shape[1], metric="l2sq", dtype="f32", connectivity=16, expansion_add=100, expansion_search=64
        )
        self._index.add(np.arange(len(vectors)), vectors, threads=count_threads())

    def settings(self, k: int) -> list[int]:
        return efforts(k, max(k, len(self._index)))

    def search(self, queries: Vectors, k: int, setting: int) -> Ids:
        self._index.expansion_search = setting
        matches = self._index.search(queries, k, threads=1)
        ids = matches.keys.reshape(len(queries), k).astype(np.int64)  # one query comes without its axis
        counts = np.reshape(matches.counts if len(queries) > 1 else len(matches), (-1, 1))
        return np.where(np.arange(k) < counts, ids, -1)  # beyond the count it leaves what was there


@dataclass(frozen=True)
class Entry:
    """A contender that can be made, the module it needs and the package that brings it."""

    make: Callable[[], Contender]
    module: str
    package: str
    is_flann: bool = False

    @property
    def missing(self) -> str | None:
        """Which package to install, if the library cannot be imported."""
        try:
            import_module(self.module)
        except ImportError:
            return f"not installed: pip install {self.package}"
        return None


def _flann(name: str, **parameters: Any) -> Entry:
    return Entry(lambda: Flann(name, parameters), "cv2", "opencv-python-headless", is_flann=True)


# Python floats reach FLANN as doubles, which it refuses for all but cb_index: the autotuned index keeps its target
# precision of 0.8, and its checks are the effort as in the others.
CONTENDERS: dict[str, Entry] = {
    "FLANN k-means tree": _flann("FLANN k-means tree", algorithm=K_MEANS_TREE, branching=16, iterations=11),
    "FLANN 1 k-d tree": _flann("FLANN 1 k-d tree", algorithm=KD_TREES, trees=1),
    "FLANN 4 k-d trees": _flann("FLANN 4 k-d trees", algorithm=KD_TREES, trees=4),
    "FLANN autotuned": _flann("FLANN autotuned", algorithm=AUTOTUNED),
    "hnswlib": Entry(Hnswlib, "hnswlib", "hnswlib"),
    "usearch": Entry(Usearch, "usearch.index", "usearch"),
}
