"""Keep a promised recall with the fastest index, by measuring on this machine, these vectors and these queries."""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Index, Vectors, check_k, check_queries
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss import Effort, FaissIndex
from wolpertinger.index.faiss_build import TooSlowError
from wolpertinger.index.measure import recall as recall_of
from wolpertinger.index.measure import recall_by_width, seconds_per_query
from wolpertinger.index.store import Store, as_store

# The paper's names for its three settings of FLANN, and the recall it gives for each.
RECALLS = {"slow": 0.99, "medium": 0.90, "fast": 0.70}
BUILD_SECONDS = 60.0
BATCH = 64  # queries in a lookup: what an update of the critic asks for
MOST_QUERIES = 1_000  # to tune on: for k = 1 and a recall of 0.99 the standard error is then 0.3 points ...
LEAST_QUERIES = 32  # ... and for large k few do, as each asks for many neighbours
NEIGHBOURS = 32_000  # exact ones to tune on, in all
CONFIDENCE = 1.645  # standard errors that the measured recall must lie above the promise
EXACT_BELOW = 1_000  # vectors: nothing beats a scan of so few
STEP, STRIDE = 1.2, 8  # between one effort and the next; and how many steps at first, until it is enough
LOOK_BEYOND = 1.2  # times the fastest so far, that an effort may take and still be looked at
NEARLY = 0.005  # of recall
WIDER = 4  # widths further, when a search itself found too little
MOST_CANDIDATES = 256  # to re-rank for one neighbour; for k of them relatively fewer, 3 k at least
UNBUILT = "not built, and only what is built was asked for"
CONTENDING = 2.0  # times the chosen one's seconds
FINALISTS, FINAL_ROUNDS = 3, 5


@dataclass(frozen=True)
class Trial:
    """One index with one effort, measured."""

    recipe: str
    setting: str
    recall: float
    seconds: float
    """A query, in batches."""
    build_seconds: float
    bytes_per_vector: float
    """Of the index, beside the table of vectors itself."""
    keeps: bool
    """Whether it keeps the promise, with confidence."""
    chosen: bool = False


@dataclass(frozen=True)
class Tuning:
    """The fastest index that keeps a promise, and all that was tried."""

    k: int
    promise: float
    index: Index
    recipe: str
    setting: str
    trials: list[Trial]
    skipped: dict[str, str] = field(default_factory=dict)
    """Recipes that were not tried, and why."""

    @property
    def contenders(self) -> set[str]:
        """Recipes that kept the promise nearly as fast as the chosen one: worth a look when queries have changed."""
        enough = CONTENDING * self.chosen.seconds
        return {trial.recipe for trial in self.trials if trial.keeps and trial.seconds <= enough}

    @property
    def chosen(self) -> Trial:
        """The trial of the index that was chosen."""
        return next(trial for trial in self.trials if trial.chosen)


@dataclass(frozen=True)
class _Built:
    index: FaissIndex
    seconds: float
    bytes_per_vector: float


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
        self._built: dict[str, _Built] = {}
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
        task = _Task(self.store, points, k, promise, batch, self.exact, self._answer(points, k))
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
        self._built[index.recipe] = _Built(index, 0.0, index.nbytes / self.store.size)

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
        if index.kind == "IVF":
            self._centroids[file] = index.centroids
        self._built[recipe] = _Built(index, time.perf_counter() - start, index.nbytes / self.store.size)


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
    lists = [2 ** round(math.log2(factor * math.sqrt(n))) for factor in (1, 0.5, 4)]
    files = [f"IVF{count}" if count <= 8192 else f"IVF{count}_HNSW32" for count in lists if 40 * count <= n]
    recipes = [*(f"{file},{codes}" for file in files), codes]
    recipes += [f"{file},{whole}" for file in files[:1] for whole in ("Flat", "SQ8")]
    return [*recipes, "HNSW16"] if k <= 1_000 else recipes


def count_queries(k: int) -> int:
    """How many queries it takes to tune for k neighbours."""
    return max(LEAST_QUERIES, min(MOST_QUERIES, NEIGHBOURS // k))


def _sample(points: Vectors, k: int) -> Vectors:
    """As many of the queries as k needs, evenly from all of them."""
    wanted = min(len(points), count_queries(k))
    return points[np.linspace(0, len(points) - 1, wanted).astype(np.int64)] if wanted else points


class _Task:
    """One promise for one k on one sample of queries: tries efforts, keeps the score."""

    def __init__(
        self, store: Store, points: Vectors, k: int, promise: float, batch: int, exact: ExactIndex, truth: Ids
    ) -> None:
        self.store, self.points, self.k, self.promise, self.batch, self.truth = store, points, k, promise, batch, truth
        seconds = self._time(exact)
        self.found: list[tuple[Trial, Any]] = [(Trial("exact", "", 1.0, seconds, 0.0, 4.0, keeps=True), exact)]

    @property
    def best(self) -> float:
        """Seconds a query of the fastest that keeps the promise so far."""
        return min(trial.seconds for trial, _ in self.found if trial.keeps)

    def explore(self, recipe: str, built: _Built) -> None:
        """Find the least effort that keeps the promise, and go on from there until it only gets slower."""
        efforts = list(_efforts(built.index, self.k, self.promise))
        below, at = -1, 0
        while not (trial := self._try(recipe, built, efforts[at])).keeps:
            if at == len(efforts) - 1 or trial.seconds > LOOK_BEYOND * self.best:
                return
            below, at = at, min(at + STRIDE, len(efforts) - 1)
        fastest = trial.seconds
        while at - below > 1:
            middle = (below + at) // 2
            trial = self._try(recipe, built, efforts[middle])
            fastest = min(fastest, trial.seconds) if trial.keeps else fastest
            below, at = (below, middle) if trial.keeps else (middle, at)
        # More effort is slower in itself, but fewer candidates may then do.
        for effort in efforts[at + 1 :]:
            trial = self._try(recipe, built, effort)
            if not trial.keeps or trial.seconds > LOOK_BEYOND * min(fastest, self.best):
                return
            fastest = min(fastest, trial.seconds)

    def _try(self, recipe: str, built: _Built, effort: Effort) -> Trial:
        """Measure an effort with as few candidates as keep the promise, or with as many as are worth it."""
        index = built.index
        most = min(self.store.n / self.k, max(3.0, MOST_CANDIDATES / self.k**0.45))
        most = 1.0 if index.has_exact_distances else most
        candidates = index.candidates(self.points, math.ceil(most * self.k), effort)
        widths = _widths(self.k, candidates.shape[1])
        recalls = recall_by_width(self.store, self.points, candidates, self.truth)[:, widths - 1]
        enough = self._keeps(recalls)
        # With too little effort more candidates do not help: it is judged with as few as find nearly all it can find.
        means = recalls.mean(axis=0)
        place = int((enough if enough.any() else means >= means[-1] - NEARLY).argmax())
        for width in widths[place::WIDER] if enough.any() else widths[place : place + 1]:
            index = index.with_effort(replace(effort, overfetch=float(width / self.k)))
            # Asked for fewer, some indexes also look at fewer: what counts is what the search itself finds.
            recalls = recall_of(self.store, self.points, index.search(self.points, self.k), self.truth)[:, None]
            if keeps := bool(self._keeps(recalls)[0]):
                break
        trial = Trial(
            recipe=recipe,
            setting=str(index.effort),
            recall=float(recalls.mean()),
            seconds=self._time(index),
            build_seconds=built.seconds,
            bytes_per_vector=built.bytes_per_vector,
            keeps=keeps,
        )
        self.found.append((trial, index))
        return trial

    def _keeps(self, recalls: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Whether recalls (queries, settings) keep the promise with confidence, for each setting.

        The error is at least that of independent neighbours: a few queries of which all succeed prove little.
        """
        variance = np.maximum(recalls.var(axis=0), self.promise * (1 - self.promise) / self.k)
        return recalls.mean(axis=0) - CONFIDENCE * np.sqrt(variance / len(recalls)) >= self.promise

    def result(self, skipped: dict[str, str]) -> Tuning:
        """Time the fastest few again, in turn, and choose."""
        keeping = sorted((pair for pair in self.found if pair[0].keeps), key=lambda pair: pair[0].seconds)
        finalists = keeping[:FINALISTS]
        rounds = [[self._time(index, repeats=1) for _, index in finalists] for _ in range(FINAL_ROUNDS)]
        seconds = np.median(rounds, axis=0)
        best, index = finalists[int(seconds.argmin())]
        chosen = replace(best, chosen=True, seconds=float(seconds.min()))
        trials = [chosen if trial is best else trial for trial, _ in self.found]
        return Tuning(self.k, self.promise, index, chosen.recipe, chosen.setting, trials, skipped)

    def _time(self, index: Index, repeats: int = 3) -> float:
        return seconds_per_query(lambda points: index.search(points, self.k), self.points, self.batch, repeats)


def _efforts(index: FaissIndex, k: int, promise: float) -> Iterator[Effort]:
    """From the least that can be enough to the most there is."""
    if index.kind == "flat":
        yield Effort()
    elif index.kind == "IVF":
        least = max(1, int(promise * k * index.lists / index.n))
        yield from (Effort(nprobe=nprobe) for nprobe in _ladder(least, index.lists))
    else:
        yield from (Effort(ef_search=held) for held in _ladder(k, min(index.n, max(4 * k, 4096))))


def _ladder(least: int, most: int) -> Iterator[int]:
    value = least
    while value < most:
        yield value
        value = max(value + 1, round(value * STEP))
    yield most


def _widths(k: int, most: int) -> npt.NDArray[np.int64]:
    """How many candidates to re-rank: k, and a tenth more each time."""
    steps = max(0, math.floor(math.log(most / k) / math.log(1.1))) + 1
    return np.unique(np.minimum(most, np.ceil(k * 1.1 ** np.arange(steps)).astype(np.int64)))
