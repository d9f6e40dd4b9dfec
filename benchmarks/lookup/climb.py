"""Up a library's settings: what each costs, and what it finds."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from benchmarks.lookup.contenders import Contender
from wolpertinger.index import Ids
from wolpertinger.index.base import Vectors
from wolpertinger.index.measure import recall

Search = Callable[[Vectors], Ids]

BATCH = 64
LEAST_QUERIES = 8  # however slow
POINT_SHARE = 0.1  # of a cell's budget that one setting may take
CLOSE = 1.05  # settings this near to each other are not told apart
LEAST_TIMINGS = 5


@dataclass(frozen=True)
class Point:
    """What one setting of one contender costs, and what it finds."""

    setting: int
    recall: float
    standard_error: float
    ms: float  # per query
    queries: int


@dataclass(frozen=True)
class Climb:
    """One contender's settings at one k, by effort, and what kept it from the highest target, if anything did."""

    points: list[Point]
    why: str
    stopped: bool  # by the budget: with more time it might have got there


@dataclass(frozen=True)
class Truth:
    """Held-out queries and their exact answers."""

    vectors: Vectors
    queries: Vectors
    exact: Ids

    @property
    def k(self) -> int:
        """Neighbours asked for."""
        return self.exact.shape[1]

    def recalls(self, found: Ids) -> npt.NDArray[np.float64]:
        """Recall of each query, for the first of them that were searched."""
        count = len(found)
        return recall(self.vectors, self.queries[:count], found, self.exact[:count])


def climb(rival: Contender, truth: Truth, targets: Sequence[float], budget: float, say: Callable[[str], None]) -> Climb:
    """Settings up to the one that reaches the highest target; around each target in small steps."""
    points: dict[int, Point] = {}
    ends = time.perf_counter() + budget

    def measure(setting: int) -> float:
        points[setting] = _measure(
            lambda queries: rival.search(queries, truth.k, setting), truth, setting, budget * POINT_SHARE
        )
        return points[setting].recall

    why, stopped, last = f"no setting reached {targets[-1]}", False, None
    for setting in rival.settings(truth.k):
        if (
            last is not None and time.perf_counter() > ends
        ):  # asked before a step: after the last one nothing is cut off
            stopped = True
            why = f"stopped after {budget:g} s at {rival.effort} {last:,}, recall {points[last].recall:.4f}"
            break
        if measure(setting) >= targets[-1]:
            why = ""
            break
        last = setting
    for target in targets:
        _refine(points, target, measure)
    best = max(point.recall for point in points.values())
    say(f"k = {truth.k:,}, {rival.name}: {len(points)} settings, recall up to {best:.3f} {why}")
    return Climb([points[setting] for setting in sorted(points)], why, stopped)


def _refine(points: Mapping[int, Point], target: float, measure: Callable[[int], float]) -> None:
    """Bisect between the last setting below the target and the first that reaches it."""
    reached = cheapest(points.values(), target)
    if reached is None:
        return
    high = reached.setting
    low = max((setting for setting in points if setting < high), default=high)
    while high - low > 1 and high > CLOSE * low:
        middle = (low + high) // 2
        if measure(middle) >= target:
            high = middle
        else:
            low = middle


def cheapest(points: Iterable[Point], target: float) -> Point | None:
    """The least effort that reaches the target."""
    reached = [point for point in points if point.recall >= target]
    return min(reached, key=lambda point: point.setting) if reached else None


def _measure(search: Search, truth: Truth, setting: int, seconds: float) -> Point:
    """Search the held-out queries in batches, as many of them as fit into the time."""
    size = batch_size(search, truth, seconds)
    found, timings = [], []
    ends = time.perf_counter() + seconds
    for start in range(0, len(truth.queries), size):
        batch = truth.queries[start : start + size]
        begin = time.perf_counter()
        found.append(search(batch))
        timings.append((time.perf_counter() - begin) / len(batch))
        if start + size >= LEAST_QUERIES and time.perf_counter() > ends:
            break
    while len(timings) < LEAST_TIMINGS and time.perf_counter() < ends:
        begin = time.perf_counter()
        search(truth.queries[:size])
        timings.append((time.perf_counter() - begin) / size)
    recalls = truth.recalls(np.concatenate(found))
    error = float(recalls.std() / np.sqrt(len(recalls)))
    return Point(setting, float(recalls.mean()), error, 1e3 * median(timings), len(recalls))


def batch_size(search: Search, truth: Truth, seconds: float) -> int:
    """64 queries, or fewer if those would take longer than there is time for."""
    begin = time.perf_counter()
    search(truth.queries[:1])
    alone = time.perf_counter() - begin
    return max(1, min(BATCH, len(truth.queries), int(seconds / alone)))
