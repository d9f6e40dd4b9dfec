"""Eight threads look up while one adds and removes: every answer is right for a moment between its start and end."""

import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

import numpy as np

from wolpertinger import ActionTable

READERS, SECONDS_PER_OPERATION = 8, 6e-4  # 60 s for 100,000
ROWS, DIM, K = 1_200, 6, 5
FEW, MANY, MOST = 20, 1_100, 6_000  # rows of a change; many are more than an index scans; of the table
JUDGED = 250  # answers together, by the rows that were there at any moment of theirs
LEAST_RECALL = 0.25  # of an approximate index, on average: what is valid may still be useless
KINDS: dict[str, dict[str, Any]] = {
    "exact": {},
    **{recipe: {"index": recipe} for recipe in ("Flat", "IVF16,Flat", "IVF16,SQ8", "HNSW16", "PQ6x4fs")},
    **{recipe: {"index": recipe} for recipe in ("IVF16,PQ6x4fs", "PCA4,IVF16,Flat", "IVF16,SQ8,RFlat", "LSH")},
    "recall 0.9": {"recall": 0.9},
    "recall 0.9, HNSW16": {"recall": 0.9, "index": "HNSW16"},
}
EXACT = ("exact", "Flat")


@dataclass
class History:
    """All rows ever, and between which changes each was there."""

    vectors: list[np.ndarray] = field(default_factory=list)
    born: list[int] = field(default_factory=list)
    died: dict[int, int] = field(default_factory=dict)
    begun: int = 0
    """Changes that were begun, and ..."""
    done: int = 0
    """... that came to their end."""

    def add(self, rows: np.ndarray) -> None:
        self.vectors.append(rows)
        self.born += [self.begun] * len(rows)

    def freeze(self) -> "Frozen":
        died = np.full(len(self.born), np.iinfo(np.int64).max)
        died[list(self.died)] = list(self.died.values())
        return Frozen(np.concatenate(self.vectors).astype(np.float64), np.array(self.born), died)


@dataclass(frozen=True)
class Frozen:
    """The same when all is over."""

    vectors: np.ndarray
    born: np.ndarray
    died: np.ndarray

    def moments(self, ids: np.ndarray, first: int, last: int) -> range:
        """The numbers of changes from `first` to `last` after which all of these were there."""
        if ids.min() < 0 or ids.max() >= len(self.born) or len(set(ids.tolist())) < len(ids):
            return range(0)
        return range(max(first, int(self.born[ids].max())), min(last, int(self.died[ids].min()) - 1) + 1)

    def between(self, first: int, last: int) -> np.ndarray:
        """The ids (n,) of the rows that were there after any of the changes from `first` to `last`."""
        begun = int(np.searchsorted(self.born, last, side="right"))
        return np.flatnonzero(self.died[:begun] > first)

    def nearest(self, ids: np.ndarray, distances: np.ndarray, moment: int, k: int) -> np.ndarray:
        """The nearest (k,) of the rows with these ascending ids that were there then, ties by id."""
        there = (self.born[ids] <= moment) & (moment < self.died[ids])
        return ids[there][np.argsort(distances[there], kind="stable")[:k]]


def look_up_while_writing(kind: str, operations: int, seed: int = 0) -> dict[str, Any]:
    """So many lookups in all, by eight threads, over one kind of index."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(ROWS, DIM)).astype(np.float32)
    table, history = ActionTable(vectors, **KINDS[kind]), History()
    history.add(vectors)
    recent: deque[np.ndarray] = deque(vectors[:FEW], maxlen=4 * FEW)  # what was changed last is what is asked for

    def read(own: np.random.Generator) -> tuple[Any, ...]:
        point = recent[int(own.integers(len(recent)))] + own.normal(size=DIM).astype(np.float32) * 0.05
        first = history.done
        found = table.nearest(point[None], K)[0]
        return point, found, first, history.begun

    answers, failures = run(read, lambda own: change(table, history, recent, own), operations, seed)
    return {"changes": history.done, **judge(kind, answers, history.freeze(), failures)}


def run(
    read: Callable[[np.random.Generator], Any], write: Callable[[np.random.Generator], None], operations: int, seed: int
) -> tuple[list[Any], list[str]]:
    """What eight threads read while another one writes, and the errors that any of them met."""
    answers: list[list[Any]] = [[] for _ in range(READERS)]
    failures: list[str] = []
    over, end = threading.Event(), monotonic() + operations * SECONDS_PER_OPERATION

    def going_on() -> bool:
        return not over.is_set() and (monotonic() < end or sum(map(len, answers)) < operations)

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(f"{type(error).__name__}: {error}"[:300])
            over.set()

    def reading(number: int) -> None:
        own = np.random.default_rng((seed, number))
        while going_on():
            answers[number].append(read(own))
            sleep(own.exponential(0.002))  # else the writer hardly gets a turn

    def writing() -> None:
        own = np.random.default_rng((seed, READERS))
        while going_on():
            write(own)
            sleep(own.exponential(0.001))

    works = [lambda number=number: reading(number) for number in range(READERS)]
    threads = [threading.Thread(target=guarded, args=[work]) for work in [*works, writing]]
    before = sys.getswitchinterval()
    sys.setswitchinterval(2e-5)  # so that threads are interrupted where it hurts
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    return [answer for part in answers for answer in part], failures


def change(table: ActionTable, history: History, recent: "deque[np.ndarray]", rng: np.random.Generator) -> None:
    """Add some rows or remove some; at times very many."""
    many, alive = rng.random() < 0.02, table.ids
    removes = len(alive) > MOST or (len(alive) > ROWS // 2 and rng.random() < 0.5)
    count = int(rng.integers(1, FEW))
    history.begun += 1
    if removes:
        gone = rng.choice(alive, min(len(alive) - 4 * K, MANY if many else count), replace=False)
        recent.extend(table.embed(gone[:FEW]))
        history.died |= dict.fromkeys(gone.tolist(), history.begun)
        table.remove(gone)
    else:
        rows = rng.normal(size=(MANY if many else count, DIM)).astype(np.float32)
        history.add(rows)
        recent.extend(rows[:FEW])
        table.add(rows)
    history.done = history.begun


def judge(kind: str, answers: list[Any], history: Frozen, failures: list[str]) -> dict[str, Any]:
    """Compare answers with all rows as they were at each moment of a lookup."""
    recalls, wrong = [], list(failures)
    in_time = sorted(answers, key=lambda answer: answer[2])
    for start in range(0, len(in_time), JUDGED):
        part = in_time[start : start + JUDGED]
        alive = history.between(part[0][2], max(last for *_, last in part))
        for point, found, first, last in part:
            shares = _shares(kind, history, alive, point, found, history.moments(found, first, last))
            recalls.append(max(shares, default=0.0))
            if not shares:
                wrong.append(f"{found.tolist()} was never right between changes {first} and {last}")
    recall = float(np.mean(recalls)) if recalls else 0.0
    if recall < LEAST_RECALL:
        wrong.append(f"recall {recall:.3f}")
    counts = {"lookups": len(answers), "right": len(answers) + len(failures) - len(wrong), "recall": round(recall, 3)}
    return {**counts, "failures": wrong[:20]}


def _shares(
    kind: str, history: Frozen, alive: np.ndarray, point: np.ndarray, found: np.ndarray, moments: range
) -> list[float]:
    """The share of the nearest that was found, at each moment at which the answer is right: for an approximate index,
    K rows that were there, nearest first.
    """
    if len(found) != K or not moments:
        return []
    distances = np.square(history.vectors[alive] - point).sum(axis=1)
    own = np.square(history.vectors[found] - point).sum(axis=1).astype(np.float32)
    if (np.diff(own) < -1e-5).any():
        return []
    nearest = [history.nearest(alive, distances, moment, K) for moment in moments]
    if kind in EXACT:
        return [1.0 for expected in nearest if np.array_equal(found, expected)]
    return [float(np.isin(found, expected).mean()) for expected in nearest]
