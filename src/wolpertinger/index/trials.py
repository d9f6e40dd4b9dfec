"""Trying indexes for one promise: which effort is enough, which is fastest."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Index, Vectors
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss import Effort, FaissIndex
from wolpertinger.index.measure import recall as recall_of
from wolpertinger.index.measure import recall_by_width, seconds_per_query
from wolpertinger.index.store import Store

CONFIDENCE = 1.645  # standard errors that the measured recall must lie above the promise
STEP, STRIDE = 1.2, 8  # between one effort and the next; and how many steps at first, until it is enough
LOOK_BEYOND = 1.2  # times the fastest so far, that an effort may take and still be looked at
NEARLY = 0.005  # of recall
WIDER = 4  # widths further, when a search itself found too little
MOST_CANDIDATES = 256  # to re-rank for one neighbour; for k of them relatively fewer, 3 k at least
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
class Built:
    """An index, what it took to build, and what it takes to keep."""

    index: FaissIndex
    seconds: float
    bytes_per_vector: float


class Task:
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

    def explore(self, recipe: str, built: Built) -> None:
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

    def _try(self, recipe: str, built: Built, effort: Effort) -> Trial:
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
