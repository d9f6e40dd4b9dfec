"""Choose the fastest index that reaches a recall, by measuring on this machine, these vectors and these queries."""

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
from wolpertinger.index.tuning_run import BuiltIndex, TuningResult, TuningRun
from wolpertinger.settings import check_number, show

# The paper's names for its three settings of FLANN, and the recall it gives for each.
RECALLS = {"slow": 0.99, "medium": 0.90, "fast": 0.70}
BUILD_SECONDS = 60.0
BATCH = 64  # queries per search: as many as an update of the critic asks for
MAX_TUNING_QUERIES = 1_000  # for k = 1 and a recall of 0.99 the standard error is then 0.3 points
MIN_TUNING_QUERIES = 32  # for large k few are enough, as each has many neighbours
TUNING_NEIGHBOURS = 32_000  # of all tuning queries
EXACT_BELOW = 1_000  # vectors: nothing is faster than a scan of so few
# Lists found by codes of their centroids: fewer centroids are compared as fast themselves, more are found faster by a
# graph, and in few dimensions too few codes are distinct.
MIN_CODED_LISTS, MAX_CODED_LISTS, MIN_CODED_DIM = 1024, 8192, 8
UNBUILT = "not built, and only what is built was asked for"


class Tuner:
    """Tunes indexes over one store, and keeps those that it built for the next tuning.

    `build_seconds` limits the time spent on building in one tuning; `recipes` are tried beside the exact scan.
    """

    def __init__(
        self,
        vectors: npt.ArrayLike | Store,
        *,
        build_seconds: float = BUILD_SECONDS,
        recipes: list[str] | None = None,
    ) -> None:
        check_number("build_seconds", build_seconds, most=math.inf)
        self.store = as_store(vectors)
        self.build_seconds = build_seconds
        self._recipes = recipes
        self.exact = ExactIndex(self.store)
        """The exact scan that all others are compared with."""
        self._built: dict[str, BuiltIndex] = {}
        self._refused: dict[str, tuple[float, str]] = {}  # recipes not built: seconds it would take, and the reason
        self._last_truth: tuple[bytes, Ids] | None = None  # the last queries, and their exact neighbours
        self._centroids: dict[str, Any] = {}  # by inverted file: recipes with the same lists share one k-means

    def tune(
        self, queries: npt.ArrayLike, *, k: int, recall: float | str, batch: int = BATCH, build: bool = True
    ) -> TuningResult:
        """Find the fastest index for k neighbours at this recall, on these queries; build=False builds no new ones."""
        check_number("batch", batch, least=1, whole=True)
        k, target = check_k(k, self.store.n), check_recall(recall)
        points = _sample(check_queries(queries, self.store.dim), k)
        if not len(points):
            raise ValueError("queries are empty: give at least one to tune on")
        recipes = self._recipes_to_try(k) if target < 1 else []  # only a scan has a recall of 1 for certain
        skipped = self.build(recipes) if build else dict.fromkeys(recipes, UNBUILT)
        run = TuningRun(self.store, points, k, target, batch, self.exact, self._truth(points, k))
        for recipe in recipes:
            if recipe in self._built:
                self._built[recipe].index.settle()  # what is measured is the index, not a scan of what was added
            if recipe in self._built and self._built[recipe].index.is_usable(k):
                run.explore(recipe, self._built[recipe])
                skipped.pop(recipe, None)
            elif recipe in self._built:
                skipped[recipe] = "it cannot skip the rows that were removed"
        return run.result(skipped)

    def build_for(self, k: int) -> None:
        """Build the indexes that `tune` would build for k."""
        self.build(self._recipes_to_try(k))

    def build(self, recipes: Iterable[str]) -> dict[str, str]:
        """Build these within `build_seconds`; return those that were not built, and why."""
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

    def _truth(self, points: Vectors, k: int) -> Ids:
        """Return the exact neighbours; tunings to several recalls on the same queries search for them once."""
        key = f"{k} {self.store.version} ".encode() + points.tobytes()
        if self._last_truth is None or self._last_truth[0] != key:
            self._last_truth = key, self.exact.search(points, k)
        return self._last_truth[1]

    def adopt(self, index: FaissIndex) -> None:
        """Add an index that was built elsewhere, such as one from a file."""
        self._built[index.recipe] = BuiltIndex(index, 0.0, index.nbytes / self.store.size)

    def warm_start(self, other: "Tuner", recipes: Iterable[str]) -> None:
        """Try only these recipes, which another tuner chose, and start from its centroids."""
        self._recipes = list(recipes)
        self._centroids = dict(other._centroids)

    def start_over(self) -> None:
        """Drop all that was built or warm-started: the rows have moved too far. Try codes and uncompressed vectors.

        Rows may move so that codes hardly distinguish them: then lists of uncompressed vectors still work.
        """
        self._built.clear()
        self._centroids.clear()
        likely = recipes_for(self.store.n, self.store.dim, 1)
        self._recipes = [*likely[:1], *(recipe for recipe in likely if recipe.endswith(",Flat"))]

    def keep(self, recipes: Iterable[str]) -> None:
        """Drop the indexes of all other recipes, to free their memory."""
        self._built = {recipe: self._built[recipe] for recipe in recipes if recipe in self._built}

    @property
    def built(self) -> dict[str, FaissIndex]:
        """The built indexes, by recipe."""
        return {recipe: built.index for recipe, built in self._built.items()}

    def _recipes_to_try(self, k: int) -> list[str]:
        if self.store.n < EXACT_BELOW:
            return []
        return recipes_for(self.store.n, self.store.dim, k) if self._recipes is None else self._recipes

    def _build(self, recipe: str, seconds: float) -> None:
        if recipe in self._built:
            return
        start = time.perf_counter()
        ivf = recipe.partition(",")[0]
        index = FaissIndex(self.store, recipe, build_seconds=seconds, centroids=self._centroids.get(ivf))
        if index.kind == "IVF":  # the first ones stay: centroids stored as codes would lose precision each time
            self._centroids.setdefault(ivf, index.centroids)
        self._built[recipe] = BuiltIndex(index, time.perf_counter() - start, index.nbytes / self.store.size)


def check_recall(recall: float | str) -> float:
    """Return a recall in (0, 1], given as a number or by one of the paper's three names."""
    accepted = f"give a share of the true neighbours in (0, 1], or {', '.join(map(repr, RECALLS))}"
    if isinstance(recall, str):
        if recall not in RECALLS:
            raise ValueError(f"recall={recall!r}: {accepted}")
        return RECALLS[recall]
    if isinstance(recall, bool) or not isinstance(recall, Real):
        raise TypeError(f"recall={show(recall)} is not a number: {accepted}")
    if not 0 < recall <= 1:
        raise ValueError(f"recall={recall!r}: {accepted}")
    return float(recall)


def recipes_for(n: int, dim: int, k: int) -> list[str]:
    """Return FAISS recipes to try, the most promising first.

    4-bit product quantisation ("PQ...x4fs") is scanned by SIMD; exact distances re-rank its best. A graph (HNSW) is for
    few neighbours: for very many it is slower than a scan of everything.
    """
    codes = f"PQ{dim if dim <= 64 or dim % 2 else dim // 2}x4fs"
    nearest = math.floor(math.log2(math.sqrt(n)) + 0.5)  # power of two
    lists = [2**power for power in (nearest, nearest + 1, nearest - 1, nearest + 2)]
    files = [_inverted_file(count, dim, codes) for count in lists if 40 * count <= n]
    recipes = [*(f"{file},{codes}" for file in files), codes]
    recipes += [f"{file},{vectors}" for file in files[:1] for vectors in ("Flat", "SQ8")]
    return [*recipes, "HNSW16"] if k <= 1_000 else recipes


def _inverted_file(lists: int, dim: int, codes: str) -> str:
    """Return the recipe of an inverted file. Many lists are found by codes of their centroids: comparing the centroids
    themselves would take as long as scanning the lists.
    """
    if lists > MAX_CODED_LISTS:
        return f"IVF{lists}_HNSW32"
    return f"IVF{lists}({codes})" if lists >= MIN_CODED_LISTS and dim >= MIN_CODED_DIM else f"IVF{lists}"


def count_queries(k: int) -> int:
    """Return how many queries to tune on for k neighbours."""
    return max(MIN_TUNING_QUERIES, min(MAX_TUNING_QUERIES, TUNING_NEIGHBOURS // k))


def _sample(points: Vectors, k: int) -> Vectors:
    """Return as many of the queries as k needs, evenly spaced."""
    wanted = min(len(points), count_queries(k))
    return points[np.linspace(0, len(points) - 1, wanted).astype(np.int64)] if wanted else points
