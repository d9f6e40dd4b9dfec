"""One tuning: measure indexes with different search parameters, and choose the fastest that reaches a recall."""

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

CONFIDENCE = 1.645  # standard errors by which the measured recall must exceed the target
EFFORT_RATIO, FIRST_STRIDE = 1.2, 8  # from one effort to the next; efforts skipped at first, until one is enough
MAX_SLOWDOWN = 1.2  # times the fastest so far: slower efforts end the search along a recipe
RECALL_TOLERANCE = 0.005  # that counts as no loss
WIDTH_STRIDE = 4  # widths to go on by, where the search itself finds too little
MAX_OVERFETCH = 256  # candidates to re-rank for one neighbour; for k of them relatively fewer, 3 k at least
CONTENDER_SLOWDOWN = 2.0  # times the chosen one's seconds
FINALISTS, FINAL_ROUNDS = 3, 5


@dataclass(frozen=True)
class Trial:
    """The measurement of one index with one setting of its search parameters."""

    recipe: str
    setting: str
    recall: float
    seconds: float
    """Per query, in batches."""
    build_seconds: float
    bytes_per_vector: float
    """Of the index, without the vectors themselves."""
    keeps: bool
    """Whether it reaches the target recall, with confidence."""
    chosen: bool = False


@dataclass(frozen=True)
class TuningResult:
    """The fastest index that reaches a target recall, and all trials."""

    k: int
    target_recall: float
    index: Index
    recipe: str
    setting: str
    trials: list[Trial]
    skipped: dict[str, str] = field(default_factory=dict)
    """Recipes that were not tried, and why."""

    @property
    def contenders(self) -> set[str]:
        """Recipes that reach the recall nearly as fast as the chosen one: candidates when the queries have changed."""
        limit = CONTENDER_SLOWDOWN * self.chosen.seconds
        return {trial.recipe for trial in self.trials if trial.keeps and trial.seconds <= limit}

    @property
    def chosen(self) -> Trial:
        """The trial of the index that was chosen."""
        return next(trial for trial in self.trials if trial.chosen)


@dataclass(frozen=True)
class BuiltIndex:
    """An index, with what it cost to build and the memory it takes."""

    index: FaissIndex
    seconds: float
    bytes_per_vector: float


class TuningRun:
    """Trials for one k and one target recall, on one sample of queries with their true neighbours."""

    def __init__(
        self, store: Store, points: Vectors, k: int, target_recall: float, batch: int, exact: ExactIndex, truth: Ids
    ) -> None:
        self.store, self.points, self.k, self.batch, self.truth = store, points, k, batch, truth
        self.target_recall = target_recall
        seconds = self._time(exact)
        self.found: list[tuple[Trial, Any]] = [(Trial("exact", "", 1.0, seconds, 0.0, 4.0, keeps=True), exact)]

    @property
    def best_seconds(self) -> float:
        """Per query, of the fastest so far that reaches the recall."""
        return min(trial.seconds for trial, _ in self.found if trial.keeps)

    def explore(self, recipe: str, built: BuiltIndex) -> None:
        """Find the least effort that reaches the recall, and go on from there until it only gets slower."""
        efforts = list(_efforts(built.index, self.k, self.target_recall))
        below, at = -1, 0
        while not (trial := self._try(recipe, built, efforts[at])).keeps:
            if at == len(efforts) - 1 or trial.seconds > MAX_SLOWDOWN * self.best_seconds:
                return
            below, at = at, min(at + FIRST_STRIDE, len(efforts) - 1)
        fastest = trial.seconds
        while at - below > 1:
            middle = (below + at) // 2
            trial = self._try(recipe, built, efforts[middle])
            fastest = min(fastest, trial.seconds) if trial.keeps else fastest
            below, at = (below, middle) if trial.keeps else (middle, at)
        # More effort is slower in itself, but may need fewer candidates.
        for effort in efforts[at + 1 :]:
            trial = self._try(recipe, built, effort)
            if not trial.keeps or trial.seconds > MAX_SLOWDOWN * min(fastest, self.best_seconds):
                return
            fastest = min(fastest, trial.seconds)

    def _try(self, recipe: str, built: BuiltIndex, effort: Effort) -> Trial:
        """Measure an effort with as few candidates as reach the recall, or else with as few as reach nearly as much
        as the effort can.
        """
        index = built.index
        overfetch = min(self.store.n / self.k, max(3.0, MAX_OVERFETCH / self.k**0.45))
        overfetch = 1.0 if index.has_exact_distances else overfetch
        candidates = index.candidates(self.points, math.ceil(overfetch * self.k), effort)
        widths = _widths(self.k, candidates.shape[1])
        recalls = recall_by_width(self.store, self.points, candidates, self.truth)[:, widths - 1]
        enough = self._keeps(recalls)
        means = recalls.mean(axis=0)
        place = int((enough if enough.any() else means >= means[-1] - RECALL_TOLERANCE).argmax())
        for width in widths[place::WIDTH_STRIDE] if enough.any() else widths[place : place + 1]:
            index = index.with_effort(replace(effort, overfetch=float(width / self.k)))
            # Some indexes scan fewer rows when asked for fewer: only the recall of the search itself counts.
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
        """Return for each setting whether its recalls (queries, settings) reach the target with confidence.

        The variance is at least that of independent neighbours: a few queries that all succeed prove little.
        """
        target = self.target_recall
        variance = np.maximum(recalls.var(axis=0), target * (1 - target) / self.k)
        return recalls.mean(axis=0) - CONFIDENCE * np.sqrt(variance / len(recalls)) >= target

    def result(self, skipped: dict[str, str]) -> TuningResult:
        """Time the fastest few again, interleaved, and choose."""
        keeping = sorted((pair for pair in self.found if pair[0].keeps), key=lambda pair: pair[0].seconds)
        finalists = keeping[:FINALISTS]
        rounds = [[self._time(index, repeats=1) for _, index in finalists] for _ in range(FINAL_ROUNDS)]
        seconds = np.median(rounds, axis=0)
        best, index = finalists[int(seconds.argmin())]
        chosen = replace(best, chosen=True, seconds=float(seconds.min()))
        trials = [chosen if trial is best else trial for trial, _ in self.found]
        return TuningResult(self.k, self.target_recall, index, chosen.recipe, chosen.setting, trials, skipped)

    def _time(self, index: Index, repeats: int = 3) -> float:
        return seconds_per_query(lambda points: index.search(points, self.k), self.points, self.batch, repeats)


def _efforts(index: FaissIndex, k: int, target_recall: float) -> Iterator[Effort]:
    """Yield efforts from the least that can be enough to the most there is."""
    if index.kind == "flat":
        yield Effort()
    elif index.kind == "IVF":
        least = max(1, int(target_recall * k * index.lists / index.n))
        yield from (Effort(nprobe=nprobe) for nprobe in _geometric(least, index.lists))
    else:
        yield from (Effort(ef_search=size) for size in _geometric(k, min(index.n, max(4 * k, 4096))))


def _geometric(first: int, last: int) -> Iterator[int]:
    value = first
    while value < last:
        yield value
        value = max(value + 1, round(value * EFFORT_RATIO))
    yield last


def _widths(k: int, most: int) -> npt.NDArray[np.int64]:
    """Return numbers of candidates to re-rank: k, and a tenth more each time."""
    steps = max(0, math.floor(math.log(most / k) / math.log(1.1))) + 1
    return np.unique(np.minimum(most, np.ceil(k * 1.1 ** np.arange(steps)).astype(np.int64)))
