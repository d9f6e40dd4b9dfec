"""Keep a promised recall with the fastest index, by measuring on this machine, these vectors and these queries."""

import math
import time
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Vectors, check_k, check_queries
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss import FaissIndex
from wolpertinger.index.faiss_build import TooSlowError
from wolpertinger.index.store import Store, as_store
from wolpertinger.index.trials import Built, Task, Tuning

# The paper's names for its three settings of FLANN, and the recall it gives for each.
RECALLS = {"slow": 0.99, "medium": 0.90, "fast": 0.70}
BUILD_SECONDS = 60.0
BATCH = 64  # queries in a lookup: what an update of the critic asks for
MOST_QUERIES = 1_000  # to tune on: for k = 1 and a recall of 0.99 the standard error is then 0.3 points ...
LEAST_QUERIES = 32  # ... and for large k few do, as each asks for many neighbours
NEIGHBOURS = 32_000  # exact ones to tune on, in all
EXACT_BELOW = 1_000  # vectors: nothing beats a scan of so few
LEAST_CODED_LISTS, MOST_CODED_LISTS = 1024, 8192  # a few centroids are compared as fast as codes; of more a graph ...
LEAST_CODED_DIM = 8  # ... is faster, and of few numbers there are few codes: 714 for 1,024 centroids of 3, 16 of 1
UNBUILT = "not built, and only what is built was asked for"


class Tuner:
    """Tries indexes over one store and keeps what it built for the next tuning.

    `build_seconds` caps the time spent on building in one tuning; `recipes` are what to try beside the exact scan.
    """

    def __init__(
        self,
        vectors: npt.ArrayLike | Store,
        *,
        build_seconds: float = BUILD_SECONDS,
        recipes: list[str] | None = None,
    ) -> None:
        if not build_seconds >= 0:
            raise ValueError(f"build_seconds={build_seconds!r}: give a number of at least 0")
        self.store = as_store(vectors)
        self.build_seconds = build_seconds
        self._recipes = recipes
        self.exact = ExactIndex(self.store)
        """The scan that all others are measured against."""
        self._built: dict[str, Built] = {}
        self._refused: dict[str, tuple[float, str]] = {}  # what was not built: seconds it would take, and the reason
        self._known: tuple[bytes, Ids] | None = None  # the last exact answer, and what was asked
        self._centroids: dict[str, Any] = {}  # of inverted files: one k-means for all that use them

    def tune(
        self, queries: npt.ArrayLike, *, k: int, recall: float | str, batch: int = BATCH, build: bool = True
    ) -> Tuning:
        """The fastest index for k neighbours at this recall, on these queries; build=False tries what is built only."""
        k, promise = check_k(k, self.store.n), check_recall(recall)
        points = _sample(check_queries(queries, self.store.dim), k)
        if not len(points):
            raise ValueError("queries are empty: give at least one to tune on")
        candidates = self._candidates(k) if promise < 1 else []  # only a scan finds all, whatever is asked
        skipped = self.build(candidates) if build else dict.fromkeys(candidates, UNBUILT)
        task = Task(self.store, points, k, promise, batch, self.exact, self._answer(points, k))
        for recipe in candidates:
            if recipe in self._built and self._built[recipe].index.is_usable(k):
                task.explore(recipe, self._built[recipe])
                skipped.pop(recipe, None)
            elif recipe in self._built:
                skipped[recipe] = "it cannot skip the rows that were removed"
        return task.result(skipped)

    def build_for(self, k: int) -> None:
        """Build now what `tune` would build for k."""
        self.build(self._candidates(k))

    def build(self, recipes: Iterable[str]) -> dict[str, str]:
        """Build these within `build_seconds`; returns what was not built, and why."""
        skipped: dict[str, str] = {}
        left = self.build_seconds
        for recipe in recipes:
            needed, why = self._refused.get(recipe, (0.0, f"none of the {self.build_seconds:g} s to build in are left"))
            if left <= needed and recipe not in self._built:
                skipped[recipe] = why
                continue
            start = time.perf_counter()
            try:
                self._build(recipe, left)
            except (TooSlowError, ValueError) as error:
                skipped[recipe] = str(error)
                self._refused[recipe] = getattr(error, "expected", math.inf), str(error)
            left -= time.perf_counter() - start
        return skipped

    def _answer(self, points: Vectors, k: int) -> Ids:
        """The exact answer; several promises for the same queries need it once."""
        asked = f"{k} {self.store.version} ".encode() + points.tobytes()
        if self._known is None or self._known[0] != asked:
            self._known = asked, self.exact.search(points, k)
        return self._known[1]

    def adopt(self, index: FaissIndex) -> None:
        """Take in an index that was built before, such as one from a file."""
        self._built[index.recipe] = Built(index, 0.0, index.nbytes / self.store.size)

    def follow(self, other: "Tuner", recipes: Iterable[str]) -> None:
        """Try only what served another one beside the exact scan, with the centroids that it found."""
        self._recipes = list(recipes)
        self._centroids = dict(other._centroids)

    def start_over(self) -> None:
        """Forget all that was built or served: it is of rows that have moved too far. Try codes and whole vectors.

        Rows may move so that codes hardly tell them apart: those of a million keys of a critic that had learned the
        wrong thing found 40 % of the best, whatever the effort, lists of whole vectors 95 % in half a scan's time.
        """
        self._built.clear()
        self._centroids.clear()
        likely = recipes_for(self.store.n, self.store.dim, 1)
        self._recipes = [*likely[:1], *(recipe for recipe in likely if recipe.endswith(",Flat"))]

    def keep(self, recipes: Iterable[str]) -> None:
        """Forget what was built by other recipes: they take memory."""
        self._built = {recipe: self._built[recipe] for recipe in recipes if recipe in self._built}

    @property
    def built(self) -> dict[str, FaissIndex]:
        """What there is, by recipe."""
        return {recipe: built.index for recipe, built in self._built.items()}

    def _candidates(self, k: int) -> list[str]:
        if self.store.n < EXACT_BELOW:
            return []
        return recipes_for(self.store.n, self.store.dim, k) if self._recipes is None else self._recipes

    def _build(self, recipe: str, seconds: float) -> None:
        if recipe in self._built:
            return
        start = time.perf_counter()
        file = recipe.partition(",")[0]
        index = FaissIndex(self.store, recipe, build_seconds=seconds, centroids=self._centroids.get(file))
        if index.kind == "IVF":  # those that are kept as codes would be worse each time
            self._centroids.setdefault(file, index.centroids)
        self._built[recipe] = Built(index, time.perf_counter() - start, index.nbytes / self.store.size)


def check_recall(recall: float | str) -> float:
    """A share of the true neighbours in (0, 1], or one of the paper's names for three of them."""
    accepted = f"give a share of the true neighbours in (0, 1], or {', '.join(map(repr, RECALLS))}"
    if isinstance(recall, str):
        if recall not in RECALLS:
            raise ValueError(f"recall={recall!r}: {accepted}")
        return RECALLS[recall]
    if isinstance(recall, bool) or not isinstance(recall, Real):
        raise TypeError(f"recall={recall!r} is not a number: {accepted}")
    if not 0 < recall <= 1:
        raise ValueError(f"recall={recall!r}: {accepted}")
    return float(recall)


def recipes_for(n: int, dim: int, k: int) -> list[str]:
    """FAISS recipes worth a try, the likeliest first.

    "fs" codes take 4 bits a dimension and are scanned 10 times as fast as floats; exact distances re-rank the best. A
    graph (HNSW) is for few neighbours: at k = 10,000 it is slower than a scan of everything.
    """
    codes = f"PQ{dim if dim <= 64 or dim % 2 else dim // 2}x4fs"
    nearest = math.floor(math.log2(math.sqrt(n)) + 0.5)  # power of two
    lists = [2**power for power in (nearest, nearest + 1, nearest - 1, nearest + 2)]
    files = [_file(count, dim, codes) for count in lists if 40 * count <= n]
    recipes = [*(f"{file},{codes}" for file in files), codes]
    recipes += [f"{file},{whole}" for file in files[:1] for whole in ("Flat", "SQ8")]
    return [*recipes, "HNSW16"] if k <= 1_000 else recipes


def _file(lists: int, dim: int, codes: str) -> str:
    """An inverted file. It finds the nearest of many lists by codes too: by the centroids themselves that takes as long
    as the scan of what is in them (a million vectors of 20 numbers, the nearest 75 of 2,048 lists for 64 queries on one
    thread: 1.7 ms, and 0.5 by codes).
    """
    if lists > MOST_CODED_LISTS:
        return f"IVF{lists}_HNSW32"
    return f"IVF{lists}({codes})" if lists >= LEAST_CODED_LISTS and dim >= LEAST_CODED_DIM else f"IVF{lists}"


def count_queries(k: int) -> int:
    """How many queries it takes to tune for k neighbours."""
    return max(LEAST_QUERIES, min(MOST_QUERIES, NEIGHBOURS // k))


def _sample(points: Vectors, k: int) -> Vectors:
    """As many of the queries as k needs, evenly from all of them."""
    wanted = min(len(points), count_queries(k))
    return points[np.linspace(0, len(points) - 1, wanted).astype(np.int64)] if wanted else points
