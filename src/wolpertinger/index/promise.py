"""An index that keeps a promised recall while the queries move."""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Vectors, check_k, check_queries
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss import Effort, FaissIndex
from wolpertinger.index.measure import recall
from wolpertinger.index.store import Store, as_store
from wolpertinger.index.trials import Tuning
from wolpertinger.index.tune import BATCH, BUILD_SECONDS, EXACT_BELOW, Tuner, check_recall, count_queries

RECENT = 2_048  # queries that are remembered, for the next tuning
SINGLE = 4.0  # times the time of a query in a batch, that an exact scan for one alone takes
CHECKED_SHARE = 0.02  # of the time of all lookups, to spend on checking some of them
SAME_K = 1.1  # ratio of two k for which the same settings serve
NOISE = 0.5  # of likely queries, in standard deviations of the table
SPREAD_ROWS = 4_096  # to estimate those from
WINDOW, LEAST_CHECKED = 256, 32  # checks that recall is averaged over, and that it takes to judge
VERIFIED = 128  # queries that are checked when rows have moved
# Of the time since the first search, that tuning may have taken when it begins anew. Without a limit, an actor that
# moved on and on among a million plans had them tuned every few seconds: 97 % of its training was lookup.
TUNING_SHARE = 0.1
ANEW_SHARE = 0.03  # the same, when rows have moved, whether or not what served still does: something else may be faster
PAYS_OFF = 0.25  # of the time of scans, that tuning may take when rows have moved and what served fails
ENOUGH = 0.25  # of the queries that one tunes on by choice: with so many, what is asked later changes little
DOUBT = 3.0  # standard errors below the promise that count: it is judged again after every check

logger = logging.getLogger("wolpertinger")


@dataclass(frozen=True)
class Health:
    """How a promised lookup is doing, for one k."""

    k: int
    promise: float
    recall: float | None
    """Measured on the last checked lookups; 1 for the exact scan, None before the first check."""
    checked: int
    """Lookups that were checked, in all."""
    tunings: int
    """How often it was tuned."""
    index: str
    """Recipe and setting in use."""


@dataclass
class _State:
    """Of one k."""

    index: ExactIndex | FaissIndex
    recipe: str
    rows: int
    """That there were when it was tuned."""
    every: float
    """Queries from one check to the next."""
    countdown: float
    """Queries to the next check."""
    window: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    seen: int = 0
    checked: int = 0
    tunings: int = 1
    live: bool = False
    """Whether it was tuned on queries that were really asked."""
    warned: bool = False
    """Whether it was said that the recall is short and tuning has to wait."""

    def to_json(self) -> dict[str, Any]:
        effort = vars(self.index.effort) if isinstance(self.index, FaissIndex) else {}
        counts = {"checked": self.checked, "tunings": self.tunings, "live": self.live}
        return {"recipe": self.recipe, "effort": effort, "rows": self.rows, "every": self.every, **counts}

    @classmethod
    def from_json(cls, index: ExactIndex | FaissIndex, values: dict[str, Any]) -> "_State":
        rows, checked, tunings = (int(values[name]) for name in ("rows", "checked", "tunings"))
        every = float(values["every"])
        if rows < 1 or checked < 0 or tunings < 1 or not 0 < every < math.inf:
            raise ValueError(f"rows={rows}, checked={checked}, tunings={tunings}, every={every} cannot be")
        state = cls(index, values["recipe"], rows, every, every, live=bool(values["live"]))
        state.checked, state.tunings = checked, tunings
        return state


class PromisedIndex:
    """Nearest neighbours at a promised recall, by the fastest index that keeps it.

    It tunes itself at the first search for a k, and again once it knows what is really asked. A few lookups are checked
    against the exact answer; when their recall falls below the promise it tunes itself anew, as soon as tuning has not
    taken more than a tenth of the time, and a warning says so. When the rows themselves have moved (`follow`), it does
    so at once where scans would take much longer than tuning.
    """

    def __init__(
        self,
        vectors: npt.ArrayLike | Store,
        promise: float | str,
        *,
        recipe: str | None = None,
        build_seconds: float = BUILD_SECONDS,
        built: Mapping[str, npt.NDArray[np.uint8]] | None = None,
        likely: Callable[[Store, int], Vectors] | None = None,
    ) -> None:
        self._likely = likely or likely_queries
        self.promise = check_recall(promise)
        self.store = as_store(vectors)
        self.recipe = recipe
        self._tuner = Tuner(self.store, build_seconds=build_seconds, recipes=None if recipe is None else [recipe])
        for name, data in (built or {}).items():
            self._tuner.adopt(FaissIndex(self.store, name, built=data))
        if recipe is not None and recipe not in self._tuner.built:
            self._tuner.adopt(FaissIndex(self.store, recipe))  # or an error now, not at the first search
        self._states: dict[int, _State] = {}
        self._ring = np.empty((RECENT, self.store.dim), np.float32)
        self._asked = 0  # queries in all; the last of them are in the ring
        self._rng = np.random.default_rng(0)
        self._lock = threading.RLock()
        self._began = math.inf  # when the first search did
        self._building_seconds = 0.0  # of the last tuning that built something
        self._scan_seconds: dict[int, float] = {}  # of an exact scan for a query, by k, when it was last tuned
        self.tuning_seconds = 0.0
        """Spent on tuning, in all."""
        self.tunings: dict[int, Tuning] = {}
        """The last tuning for each k, with all that was tried."""

    @property
    def n(self) -> int:
        """Rows that are there."""
        return self.store.n

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self.store.dim

    @property
    def build_seconds(self) -> float:
        """The most time to spend on building in one tuning."""
        return self._tuner.build_seconds

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Ids (batch, k) of rows near each query (batch, dim), sorted by L2 distance, ties by id."""
        k = check_k(k, self.n)
        points = check_queries(queries, self.dim)
        if not len(points):
            return np.empty((0, k), np.int64)
        with self._lock:
            self._began = min(self._began, time.perf_counter())
            self._remember(points)
            state = self._state(k)
        found = state.index.search(points, k)
        with self._lock:
            self._watch(k, state, points, found)
        return found

    def _state(self, k: int) -> _State:
        """What was tuned for k, or for nearly as many, while there were about as many rows; else it is tuned now."""
        near = (known for known in self._states if max(k, known) <= SAME_K * min(k, known))
        known = k if k in self._states else min(near, key=lambda other: abs(other - k), default=None)
        if known is None or self._has_changed(self._states[known], k):
            self._tune(k, live=self._asked >= RECENT)
            known = k
        return self._states[known]

    def _has_changed(self, state: _State, k: int) -> bool:
        """Whether so many rows came or went that another index may be better by now."""
        usable = not isinstance(state.index, FaissIndex) or state.index.is_usable(k)
        return not usable or not 0.5 <= self.n / state.rows <= 2

    def _remember(self, points: Vectors) -> None:
        points = points[-RECENT:]
        places = np.arange(self._asked, self._asked + len(points)) % RECENT
        self._ring[places] = points
        self._asked += len(points)

    @property
    def _recent(self) -> Vectors:
        return self._ring[: min(self._asked, RECENT)]

    def tune(self, queries: npt.ArrayLike, k: int, *, batch: int = BATCH) -> Tuning:
        """Tune for k on these queries now, not on what was asked."""
        k = check_k(k, self.n)
        with self._lock:
            tuning = self._timed(queries, k=k, batch=batch)
            points = check_queries(queries, self.dim)
            self._remember(points)
            self._use(k, tuning, live=len(points) >= count_queries(k))
            return tuning

    def follow(self, other: "PromisedIndex", queries: npt.ArrayLike) -> None:
        """Go on from another one over the same rows, before they moved: with what served, if it does for these queries.

        What the other one was asked is forgotten: queries move with the rows that they are made for.
        """
        self._remember(check_queries(queries, self.dim))
        self._began, self.tuning_seconds = other._began, other.tuning_seconds
        self._building_seconds, self._scan_seconds = other._building_seconds, dict(other._scan_seconds)
        recipes = {state.recipe for state in other._states.values()} - {"exact"}
        if self.recipe is not None or (not recipes and self._may_tune()):
            return  # nothing served: something may by now
        self._tuner.follow(other._tuner, recipes)
        if recipes and self._may_tune(ANEW_SHARE):
            self._tuner.start_over()
            return
        self._tuner.build(recipes)
        known = {"exact", *self._tuner.built}
        self.state = {k: values for k, values in other.state.items() if values["recipe"] in known and int(k) <= self.n}
        for k, state in list(self._states.items()):
            if self._is_short_now(k):
                if other._pays_off(k):
                    self._tuner.start_over()
                    self._tune(k, live=self._asked >= ENOUGH * count_queries(k))
                else:
                    logger.warning(
                        "lookup: %s fails at k=%d since the rows have moved; they are scanned", state.recipe, k
                    )
                    fresh: deque[float] = deque(maxlen=WINDOW)
                    self._states[k] = replace(state, index=self._tuner.exact, recipe="exact", window=fresh)

    def _is_short_now(self, k: int) -> bool:
        """Whether what is used for k fails on the last queries, if there are enough to tell."""
        state = self._states[k]
        if state.recipe == "exact" or self._asked < LEAST_CHECKED:
            return False
        points = self._recent[-VERIFIED:]
        found, exact = state.index.search(points, k), self._tuner.exact.search(points, k)
        state.window.extend(recall(self.store, points, found, exact))
        return self._falls_short(state)

    def _pays_off(self, k: int) -> bool:
        """Whether to build and tune for k again takes little beside scans for as many queries as were asked of this."""
        return self._building_seconds <= PAYS_OFF * self._asked * self._scan_seconds.get(k, 0.0)

    def health(self) -> list[Health]:
        """One for each k that was searched for."""
        return [
            Health(
                k=k,
                promise=self.promise,
                recall=1.0 if state.recipe == "exact" else (float(np.mean(state.window)) if state.window else None),
                checked=state.checked,
                tunings=state.tunings,
                index=_describe(state),
            )
            for k, state in list(self._states.items())
        ]

    def _watch(self, k: int, state: _State, points: Vectors, found: Ids) -> None:
        """Check one of these lookups now and then; tune anew when it is time to."""
        state.seen += len(points)
        state.countdown -= len(points)
        if state.countdown <= 0 and state.recipe != "exact":
            state.countdown = state.every
            row = slice(at := int(self._rng.integers(len(points))), at + 1)
            exact = self._tuner.exact.search(points[row], k)
            state.window.append(float(recall(self.store, points[row], found[row], exact)[0]))
            state.checked += 1
        if not state.live and state.seen >= RECENT and self.n >= EXACT_BELOW and self.promise < 1:
            self._tune(k, live=True, build=False)
        elif len(state.window) >= LEAST_CHECKED and self._falls_short(state):
            fell_to = float(np.mean(state.window))
            if not self._may_tune():
                self._warn_once(k, state, fell_to)
                return
            self._tune(k, live=True, build=False)
            if self._states[k].recipe == "exact":  # nothing that is there will do: something new may
                self._tune(k, live=True)
            logger.warning(
                "lookup: recall at k=%d fell to %.3f, %.3g was promised; tuned again on the last %d queries: %s -> %s",
                *(k, fell_to, self.promise, len(self._recent), _describe(state), _describe(self._states[k])),
            )

    def _warn_once(self, k: int, state: _State, fell_to: float) -> None:
        if not state.warned:
            what = (k, fell_to, self.promise, self.tuning_seconds)
            logger.warning("lookup: recall at k=%d fell to %.3f, %.3g was promised; it was tuned for %.0f s, and is "
                           "tuned again when that is a tenth of the time", *what)  # fmt: skip
        state.warned = True

    def _may_tune(self, share: float = TUNING_SHARE) -> bool:
        return self.tuning_seconds <= share * (time.perf_counter() - self._began)

    def _falls_short(self, state: _State) -> bool:
        error = float(np.std(state.window)) / math.sqrt(len(state.window))
        return float(np.mean(state.window)) + DOUBT * error < self.promise

    def _tune(self, k: int, *, live: bool = False, build: bool = True) -> None:
        queries = self._recent if live else np.concatenate([self._recent, self._likely(self.store, RECENT)])
        before = self.tuning_seconds
        tuning = self._timed(queries, k=k, build=build)
        self._use(k, tuning, live=live)
        what = (k, self.promise, len(tuning.trials), self.tuning_seconds - before, _describe(self._states[k]))
        logger.info("lookup: tuned for k=%d at recall %.3g, %d settings in %.1f s: %s", *what)

    def _timed(self, queries: npt.ArrayLike, **settings: Any) -> Tuning:
        start = time.perf_counter()
        tuning = self._tuner.tune(queries, recall=self.promise, **settings)
        seconds = time.perf_counter() - start
        self.tuning_seconds += seconds
        if settings.get("build", True):
            self._building_seconds = seconds
        return tuning

    def _use(self, k: int, tuning: Tuning, *, live: bool) -> None:
        index: Any = tuning.index
        exact = next(trial for trial in tuning.trials if trial.recipe == "exact")
        self._scan_seconds[k] = exact.seconds
        every = SINGLE * exact.seconds / (CHECKED_SHARE * tuning.chosen.seconds)
        state = _State(index, tuning.recipe, self.n, every, every, live=live)
        if (before := self._states.get(k)) is not None:
            state.checked, state.tunings = before.checked, before.tunings + 1
        self._states[k], self.tunings[k] = state, tuning
        used = {self.recipe or "exact", *(known.recipe for known in self._states.values())}
        self._tuner.keep(used.union(*(known.contenders for known in self.tunings.values())))

    @property
    def built(self) -> dict[str, npt.NDArray[np.uint8]]:
        """The FAISS indexes in use by recipe, and the one that was asked for, as bytes that the constructor takes."""
        used = {values["recipe"] for values in self.state.values()} | {self.recipe or "exact"}
        return {recipe: self._tuner.built[recipe].to_bytes() for recipe in sorted(used - {"exact"})}

    @property
    def state(self) -> dict[str, dict[str, Any]]:
        """What is used for each k, in JSON's terms; set it to go on with what another index had found."""
        return {str(k): state.to_json() for k, state in self._states.items() if k <= self.n}  # rows may be gone

    @state.setter
    def state(self, saved: dict[str, dict[str, Any]]) -> None:
        for k, values in saved.items():
            recipe, effort = values["recipe"], Effort(**values["effort"])
            index = self._tuner.exact if recipe == "exact" else self._tuner.built[recipe].with_effort(effort)
            self._states[check_k(int(k), self.n)] = _State.from_json(index, values)


def likely_queries(store: Store, count: int, seed: int = 0) -> Vectors:
    """What an exploring actor may send: rows with noise in proportion to each dimension's spread, within their box."""
    rng = np.random.default_rng(seed)
    places = rng.integers(store.n, size=max(count, SPREAD_ROWS))
    rows = store.take(places if store.n == store.size else store.ids[places]).astype(np.float64)  # float32 may overflow
    noise = NOISE * rows.std(axis=0) * rng.standard_normal((count, store.dim))
    return np.clip(rows[:count] + noise, rows.min(axis=0), rows.max(axis=0)).astype(np.float32)


def _describe(state: _State) -> str:
    setting = str(state.index.effort) if isinstance(state.index, FaissIndex) else ""
    return f"{state.recipe} ({setting})" if setting else state.recipe
