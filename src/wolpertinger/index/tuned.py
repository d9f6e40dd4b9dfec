"""An index that tunes itself to a target recall, and again when the queries drift."""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Vectors, check_k, check_queries
from wolpertinger.index.faiss import Effort, FaissIndex
from wolpertinger.index.likely_queries import likely_queries as default_likely_queries
from wolpertinger.index.measure import recall as recall_of
from wolpertinger.index.monitor import (
    MIN_CHECKED,
    RECALL_WINDOW,
    REMEMBERED_QUERIES,
    FirstScans,
    LookupStats,
    MonitoredIndex,
    RecentQueries,
)
from wolpertinger.index.store import Rows, Store, as_store
from wolpertinger.index.tune import BATCH, BUILD_SECONDS, EXACT_BELOW, Tuner, check_recall, count_queries
from wolpertinger.index.tuning_run import TuningResult
from wolpertinger.threads import Guard

SINGLE_SCAN_FACTOR = 4.0  # time of an exact scan for one query, relative to one query of a batch
CHECKED_SHARE = 0.02  # of the time of all lookups, to spend on checking some of them
SAME_K_RATIO = 1.1  # of two k that share their settings
WARM_START_CHECKS = 128  # queries to check a warm start on
# Share of the time since the first search that tuning may have taken when it starts again. Without a limit, an actor
# that keeps moving would have the index tuned again and again.
TUNING_SHARE = 0.1
FULL_TUNING_SHARE = 0.03  # the same at a warm start, to try all recipes though the previous one may still do
TUNING_PER_SCAN_TIME = 0.25  # tuning at a failed warm start may take this share of the time that scans would take
LIVE_SHARE = 0.25  # of the queries that tuning asks for: with so many real ones, later ones change little

logger = logging.getLogger("wolpertinger")


class TunedIndex:
    """Nearest neighbours at a target recall, by the fastest index that reaches it.

    It is tuned at the first search, and again on real queries once there are enough; single queries for another k are
    scanned (`FirstScans`). Some lookups are checked against an exact scan: when their recall falls below the target, a
    warning says so, and the index is tuned again as soon as tuning has taken less than a tenth of the time.
    `warm_start` carries settings over when the rows move. While one thread tunes, others search by what there is, and
    scan where there is nothing yet.
    """

    def __init__(
        self,
        vectors: npt.ArrayLike | Store,
        recall: float | str,
        *,
        recipe: str | None = None,
        build_seconds: float = BUILD_SECONDS,
        built: Mapping[str, npt.NDArray[np.uint8]] | None = None,
        likely_queries: Callable[[Rows, int], Vectors] = default_likely_queries,
    ) -> None:
        self._likely_queries = likely_queries
        self.recall = check_recall(recall)
        self.store = as_store(vectors)
        self.recipe = recipe
        self._tuner = Tuner(self.store, build_seconds=build_seconds, recipes=None if recipe is None else [recipe])
        for name, data in (built or {}).items():
            self._tuner.adopt(FaissIndex(self.store, name, built=data))
        if recipe is not None and recipe not in self._tuner.built:
            self._tuner.adopt(FaissIndex(self.store, recipe))  # a bad recipe is an error now, not at the first search
        self._states: dict[int, MonitoredIndex] = {}  # by k; replaced, never changed: others may be going through it
        self._queries = RecentQueries(self.store.dim)
        self._rng = np.random.default_rng(0)
        self._guard = Guard()  # of tuning
        self._first_search = math.inf  # by time.perf_counter
        self._full_tuning_seconds = 0.0  # of the last tuning that built indexes too
        self._scan_seconds: dict[int, float] = {}  # of an exact scan for a query, by k, at the last tuning
        self._scans = FirstScans(self._tuner.exact)
        self.tuning_seconds = 0.0
        """Time spent on tuning, in all."""
        self.tunings: dict[int, TuningResult] = {}
        """The last tuning for each k."""

    @property
    def n(self) -> int:
        """Number of rows, without the removed ones."""
        return self.store.n

    @property
    def dim(self) -> int:
        """Dimensions of a row."""
        return self.store.dim

    @property
    def build_seconds(self) -> float:
        """Limit of the time spent on building in one tuning."""
        return self._tuner.build_seconds

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Return the ids (batch, k) of rows near each query (batch, dim), sorted by L2 distance, ties by id."""
        k = check_k(k, self.n)
        points = check_queries(queries, self.dim)
        if not len(points):
            return np.empty((0, k), np.int64)
        self._first_search = min(self._first_search, time.perf_counter())
        self._queries.remember(points)
        is_new = self._states and self._same_k(k) is None
        is_scanned = is_new and self._scans.will_do(points, k, self._full_tuning_seconds)
        state = None if is_scanned else self._tuned_for(k)
        if state is None:
            return self._scans.search(points, k)
        version = self.store.version
        found = state.index.search(points, k)
        self._monitor(k, state, points, found, version)
        return found

    def _same_k(self, k: int) -> int | None:
        """Return the k, or nearly the same one, that it was tuned for."""
        states = self._states
        near = (known for known in states if max(k, known) <= SAME_K_RATIO * min(k, known))
        return k if k in states else min(near, key=lambda other: abs(other - k), default=None)

    def _tuned_for(self, k: int) -> MonitoredIndex | None:
        """Return what was tuned for k, or for nearly the same k, with about as many rows; else tune now. None where
        another thread is at that.
        """
        known, version = self._same_k(k), self.store.version
        if known is not None and not self._is_outdated(state := self._states[known], k):
            return state
        with self._guard.taken(waits=False) as ours:
            if ours:
                try:
                    self._tune(k, live=self._queries.asked >= REMEMBERED_QUERIES)
                except ValueError:
                    if self.store.version == version:
                        raise
                    return None  # rows were removed meanwhile, and fewer than k are left
                return self._states[k]
        return None

    def _is_outdated(self, state: MonitoredIndex, k: int) -> bool:
        """Return whether so many rows were added or removed that another index may be better."""
        if not 0.5 <= self.n / state.rows <= 2:
            return True
        return isinstance(state.index, FaissIndex) and not state.index.is_usable(k)

    def tune(self, queries: npt.ArrayLike, k: int, *, batch: int = BATCH) -> TuningResult:
        """Tune for k on these queries now."""
        k = check_k(k, self.n)
        with self._guard.taken() as ours:
            if not ours:
                raise RuntimeError("the index is being tuned: a signal handler amid that cannot tune it too")
            tuning = self._run_tuner(queries, k=k, batch=batch)
            points = check_queries(queries, self.dim)
            self._queries.remember(points)
            self._use(k, tuning, live=len(points) >= count_queries(k))
            return tuning

    def warm_start(self, previous: "TunedIndex", queries: npt.ArrayLike) -> None:
        """Start from the settings of the index over the same rows before they moved, if they do for these queries.

        Queries that the previous index was asked are not used: they move with the rows.
        """
        self._queries.remember(check_queries(queries, self.dim))
        self._first_search, self.tuning_seconds = previous._first_search, previous.tuning_seconds
        self._full_tuning_seconds, self._scan_seconds = previous._full_tuning_seconds, dict(previous._scan_seconds)
        recipes = {state.recipe for state in previous._states.values()} - {"exact"}
        if self.recipe is not None or (not recipes and self._may_tune()):
            return  # the first search tunes: where a scan was fastest, another index may be by now
        self._tuner.warm_start(previous._tuner, recipes)
        if recipes and self._may_tune(FULL_TUNING_SHARE):
            self._tuner.start_over()
            return
        self._tuner.build(recipes)
        known = {"exact", *self._tuner.built}
        self.state = {k: saved for k, saved in previous.state.items() if saved["recipe"] in known and int(k) <= self.n}
        for k in list(self._states):
            if self._fails_now(k):
                self._replace_failed(k, previous)

    def _fails_now(self, k: int) -> bool:
        """Return whether the index for k falls short on the last queries, if there are enough to judge."""
        state = self._states[k]
        if state.is_exact or self._queries.asked < MIN_CHECKED:
            return False
        points = self._queries.last[-WARM_START_CHECKS:]
        found, exact = state.index.search(points, k), self._tuner.exact.search(points, k)
        state.window.extend(recall_of(self.store, points, found, exact))
        return state.falls_short(self.recall)

    def _replace_failed(self, k: int, previous: "TunedIndex") -> None:
        """Tune for k again, or use scans where tuning would take longer than it saves."""
        if previous._tuning_pays_off(k):
            self._tuner.start_over()
            self._tune(k, live=self._queries.asked >= LIVE_SHARE * count_queries(k))
            return
        state = self._states[k]
        logger.warning("lookup: %s fails at k=%d since the rows have moved; they are scanned", state.recipe, k)
        fresh: deque[float] = deque(maxlen=RECALL_WINDOW)
        self._put(k, replace(state, index=self._tuner.exact, recipe="exact", window=fresh))

    def _tuning_pays_off(self, k: int) -> bool:
        """Return whether a full tuning for k takes little time beside scans for as many queries as were asked."""
        return self._full_tuning_seconds <= TUNING_PER_SCAN_TIME * self._queries.asked * self._scan_seconds.get(k, 0.0)

    def stats(self) -> list[LookupStats]:
        """Return one for each k that was searched for."""
        return [state.stats(k, self.recall) for k, state in self._states.items()]

    def _monitor(self, k: int, state: MonitoredIndex, points: Vectors, found: Ids, version: int) -> None:
        """Check one of these lookups if it is time to; tune again if the recall has fallen, or on the first real
        queries.
        """
        state.seen += len(points)
        state.countdown -= len(points)
        if state.countdown <= 0 and not state.is_exact and self.store.version == version:  # the rows that were searched
            row = slice(at := int(self._rng.integers(len(points))), at + 1)
            state.check(points[row], found[row], self._tuner.exact.search(points[row], k), self.store)
        turns_live = not state.live and state.seen >= REMEMBERED_QUERIES and self.n >= EXACT_BELOW and self.recall < 1
        if not turns_live and (len(state.window) < MIN_CHECKED or not state.falls_short(self.recall)):
            return
        with self._guard.taken(waits=False) as ours:
            if ours and k <= self.n:
                self._tune(k, live=True, build=False) if turns_live else self._tune_again(k, state)

    def _tune_again(self, k: int, state: MonitoredIndex) -> None:
        """Tune on the last queries, with a warning; only a warning while tuning has taken too much of the time."""
        fell_to = float(np.mean(state.window))
        if not self._may_tune():
            state.warn_once(k, fell_to, self.recall, self.tuning_seconds)
            return
        self._tune(k, live=True, build=False)
        if self._states[k].is_exact:  # none of the built indexes reaches the recall: a new one may
            self._tune(k, live=True)
        logger.warning(
            "lookup: recall at k=%d fell to %.3f, the target is %.3g; tuned again on the last %d queries: %s -> %s",
            *(k, fell_to, self.recall, len(self._queries.last), state.describe(), self._states[k].describe()),
        )

    def _may_tune(self, share: float = TUNING_SHARE) -> bool:
        return self.tuning_seconds <= share * (time.perf_counter() - self._first_search)

    def _tune(self, k: int, *, live: bool = False, build: bool = True) -> None:
        """Tune for k on the last queries, and on likely ones too unless there are enough `live` ones."""
        likely = [] if live else [self._likely_queries(self.store.now(), REMEMBERED_QUERIES)]
        before = self.tuning_seconds
        logger.info("lookup: tuning for k=%d at recall %.3g over %d rows", k, self.recall, self.n)
        tuning = self._run_tuner(np.concatenate([self._queries.last, *likely]), k=k, build=build)
        self._use(k, tuning, live=live)
        what = (k, self.recall, len(tuning.trials), self.tuning_seconds - before, self._states[k].describe())
        logger.info("lookup: tuned for k=%d at recall %.3g, %d settings in %.1f s: %s", *what)

    def _run_tuner(self, queries: npt.ArrayLike, **settings: Any) -> TuningResult:
        start = time.perf_counter()
        tuning = self._tuner.tune(queries, recall=self.recall, **settings)
        seconds = time.perf_counter() - start
        self.tuning_seconds += seconds
        if settings.get("build", True):
            self._full_tuning_seconds = seconds
        return tuning

    def _use(self, k: int, tuning: TuningResult, *, live: bool) -> None:
        """Search for k by the chosen index from now on, and drop indexes that are no contenders for any k."""
        index: Any = tuning.index
        exact = next(trial for trial in tuning.trials if trial.recipe == "exact")
        self._scan_seconds[k] = exact.seconds
        every = SINGLE_SCAN_FACTOR * exact.seconds / (CHECKED_SHARE * tuning.chosen.seconds)
        state = MonitoredIndex(index, tuning.recipe, self.n, every, every, live=live)
        if (before := self._states.get(k)) is not None:
            state.checked, state.tunings = before.checked, before.tunings + 1
        self._put(k, state)
        self.tunings = {**self.tunings, k: tuning}
        used = {self.recipe or "exact", *(known.recipe for known in self._states.values())}
        self._tuner.keep(used.union(*(known.contenders for known in self.tunings.values())))

    def _put(self, k: int, state: MonitoredIndex) -> None:
        self._states = {**self._states, k: state}

    @property
    def built(self) -> dict[str, npt.NDArray[np.uint8]]:
        """The FAISS indexes in use by recipe, and the one that the user named, as bytes that the constructor takes."""
        used = {values["recipe"] for values in self.state.values()} | {self.recipe or "exact"}
        found = {recipe: index.to_bytes() for recipe, index in sorted(self._tuner.built.items()) if recipe in used}
        return {recipe: data for recipe, data in found.items() if data is not None}

    @property
    def state(self) -> dict[str, dict[str, Any]]:
        """The settings for each k as JSON values; set it to restore those of another index."""
        return {str(k): state.to_json() for k, state in self._states.items() if k <= self.n}  # rows may be gone

    @state.setter
    def state(self, saved: dict[str, dict[str, Any]]) -> None:
        for k, values in saved.items():
            recipe, effort = values["recipe"], Effort(**values["effort"])
            index = self._tuner.exact if recipe == "exact" else self._tuner.built[recipe].with_effort(effort)
            self._put(check_k(int(k), self.n), MonitoredIndex.from_json(index, values))
