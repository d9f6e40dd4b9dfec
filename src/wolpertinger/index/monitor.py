"""The index in use for one k, and its recall on the lookups that were checked against an exact scan."""

import logging
import math
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wolpertinger.index.base import Ids, Vectors
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss import FaissIndex
from wolpertinger.index.measure import recall as recall_of
from wolpertinger.index.store import Store
from wolpertinger.settings import check_flag, check_number

RECALL_WINDOW, MIN_CHECKED = 256, 32  # checks that the recall is averaged over, and that it takes to judge
SHORTFALL_ERRORS = 3.0  # standard errors below the target that count: the test is repeated after every check


REMEMBERED_QUERIES = 2_048  # to tune on next time
# Of queries at a time, for a k beside one that the index is tuned for: as few as this are scanned at first.
FEW_QUERIES = 16
TYPICAL_TUNING = 16.0  # seconds, where nothing was tuned in this process yet: of a million rows

logger = logging.getLogger("wolpertinger")


class RecentQueries:
    """The last queries, and how many were asked in all. Of two threads at once one may be forgotten."""

    def __init__(self, dim: int) -> None:
        self._ring = np.empty((REMEMBERED_QUERIES, dim), np.float32)
        self.asked = 0

    def remember(self, points: Vectors) -> None:
        points, asked = points[-REMEMBERED_QUERIES:], self.asked
        self._ring[np.arange(asked, asked + len(points)) % REMEMBERED_QUERIES] = points
        self.asked = asked + len(points)

    @property
    def last(self) -> Vectors:
        return self._ring[: min(self.asked, REMEMBERED_QUERIES)]


class FirstScans:
    """Exact scans for a few queries at another k than the index is tuned for, until they took as long as tuning would.

    Tuning then no more than doubles the time, and a single look at another k never waits for it.
    """

    def __init__(self, exact: ExactIndex) -> None:
        self._exact = exact
        self._seconds: defaultdict[int, float] = defaultdict(float)  # by k

    def will_do(self, points: Vectors, k: int, tuning_seconds: float) -> bool:
        """Return whether to scan for these queries and not to tune; `tuning_seconds` of the last time, or 0."""
        return len(points) <= FEW_QUERIES and self._seconds[k] < (tuning_seconds or TYPICAL_TUNING)

    def search(self, points: Vectors, k: int) -> Ids:
        start = time.perf_counter()
        found = self._exact.search(points, k)
        self._seconds[k] += time.perf_counter() - start
        return found


@dataclass(frozen=True)
class LookupStats:
    """How a tuned lookup does, for one k."""

    k: int
    target_recall: float
    recall: float | None
    """Mean over the last checked lookups; 1 for the exact scan, None before the first check."""
    checked: int
    """Lookups that were checked, in all."""
    tunings: int
    """How often it was tuned."""
    index: str
    """Recipe and search parameters in use."""


@dataclass
class MonitoredIndex:
    """A tuned index for one k, with the recall of its last checked lookups."""

    index: ExactIndex | FaissIndex
    recipe: str
    rows: int
    """Number of rows when it was tuned."""
    every: float
    """Queries from one check to the next."""
    countdown: float
    """Queries to the next check."""
    window: deque[float] = field(default_factory=lambda: deque(maxlen=RECALL_WINDOW))
    """Recalls of the last checked lookups."""
    seen: int = 0
    """Queries since it was tuned."""
    checked: int = 0
    tunings: int = 1
    live: bool = False
    """Whether it was tuned on real queries, not on likely ones."""
    warned: bool = False
    """Whether a warning has said that the recall is short and tuning has to wait."""

    @property
    def is_exact(self) -> bool:
        return self.recipe == "exact"

    @property
    def recall(self) -> float | None:
        """Mean recall of the last checked lookups; None before the first check."""
        return float(np.mean(list(self.window))) if self.window else None

    def check(self, points: Vectors, found: Ids, exact: Ids, store: Store) -> None:
        """Compare lookups with the exact answers."""
        self.countdown = self.every
        self.window.extend(recall_of(store, points, found, exact).tolist())
        self.checked += len(points)

    def warn_once(self, k: int, fell_to: float, target: float, seconds: float) -> None:
        """Say that the recall is short, and that tuning, of `seconds` so far, has to wait."""
        if not self.warned:
            logger.warning("lookup: recall at k=%d fell to %.3f, the target is %.3g; it was tuned for %.0f s, and is "
                           "tuned again when that is a tenth of the time", k, fell_to, target, seconds)  # fmt: skip
        self.warned = True

    def falls_short(self, target_recall: float) -> bool:
        """Return whether the recall of the last checks is significantly below the target."""
        window = list(self.window)  # others may add to it
        error = float(np.std(window)) / math.sqrt(len(window))
        return float(np.mean(window)) + SHORTFALL_ERRORS * error < target_recall

    def describe(self) -> str:
        """Return recipe and search parameters in one string."""
        setting = str(self.index.effort) if isinstance(self.index, FaissIndex) else ""
        return f"{self.recipe} ({setting})" if setting else self.recipe

    def stats(self, k: int, target_recall: float) -> LookupStats:
        recall = 1.0 if self.is_exact else self.recall
        return LookupStats(k, target_recall, recall, self.checked, self.tunings, self.describe())

    def to_json(self) -> dict[str, Any]:
        effort = vars(self.index.effort) if isinstance(self.index, FaissIndex) else {}
        counts = {"checked": self.checked, "tunings": self.tunings, "live": self.live}
        return {"recipe": self.recipe, "effort": effort, "rows": self.rows, "every": self.every, **counts}

    @classmethod
    def from_json(cls, index: ExactIndex | FaissIndex, values: dict[str, Any]) -> "MonitoredIndex":
        rows, checked, tunings, every = (values[name] for name in ("rows", "checked", "tunings", "every"))
        for name, least in (("rows", 1), ("checked", 0), ("tunings", 1)):
            check_number(name, values[name], least=least, whole=True)
        check_number("every", every, above=True)
        check_flag("live", values["live"])
        state = cls(index, values["recipe"], rows, every, every, live=values["live"])
        state.checked, state.tunings = checked, tunings
        return state
