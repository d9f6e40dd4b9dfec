"""Nearest-neighbour lookup measured: recall against time, ours and other libraries on the same vectors and queries.

Everything is timed on one thread in batches of 64, as training asks. A contender's setting is chosen on the very
queries that the table reports, ours is tuned on other ones: the comparison errs in the contenders' favour.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

import numpy as np

from benchmarks.lookup.climb import BATCH, POINT_SHARE, Climb, Search, Truth, batch_size, cheapest, climb
from benchmarks.lookup.contenders import CONTENDERS, Contender, Entry
from wolpertinger.actions.base import resolve_k
from wolpertinger.cli.vectors import LookupSet
from wolpertinger.index import Ids, Tuner
from wolpertinger.index.base import Vectors
from wolpertinger.index.tune import check_recall
from wolpertinger.threads import using_threads

Result = dict[str, Any]

TUNE_SEED, HELD_OUT_SEED = 0, 1  # one even, one odd: stored queries are dealt out by that
MOST_QUERIES = 2_048  # at k = 1 and a recall of 0.99 the standard error is then 0.002, at 0.9 0.007, at 0.7 0.010
NEIGHBOURS = 65_536  # looked at in all: larger k need fewer queries, each tells more
# At k = 656 and a recall of 0.7 one query's recall spreads by 0.09: 64 queries gave a standard error of 0.011, 256 give
# 0.006, and 0.002 at a recall of 0.9. That spread falls as k grows (0.15 at k = 131): 64 do for larger k.
FEWEST_QUERIES, LARGE_K, FEWEST_AT_LARGE_K = 256, 5_000, 64
LEAST_ROUNDS, MOST_ROUNDS = 3, 15


def bench(
    chosen: LookupSet,
    *,
    ks: Sequence[int | float] = (1, 0.01, 0.05),
    targets: Sequence[float | str] = (0.7, 0.9, 0.99),
    budget: float = 60.0,
    build_seconds: float = 600.0,
    contenders: Mapping[str, Entry] = CONTENDERS,
    say: Callable[[str], None] = lambda line: None,
) -> Result:
    """Measure every contender and ours for every k (count or share) and recall target (share, or its name).

    `budget` seconds go to each contender's climb at each k, and about as much again to the steps in between;
    `build_seconds` bound what our tuner builds.
    """
    shares = sorted({check_recall(target) for target in targets})
    vectors = chosen.vectors
    counts = sorted({resolve_k(k, len(vectors)) for k in ks})
    tuner = Tuner(vectors, build_seconds=build_seconds)
    rivals, listed = _build_all(contenders, vectors, say)
    cells, curves = [], []
    for k in counts:
        found, curve = _bench_k(chosen, k, shares, tuner, rivals, budget, say)
        cells += found
        curves.append(curve)
    return {
        "set": chosen.name,
        "description": chosen.description,
        "n": len(vectors),
        "dim": vectors.shape[1],
        "batch": BATCH,
        "threads": 1,
        "budget_seconds": budget,
        "build_seconds": build_seconds,
        "targets": shares,
        "contenders": listed,
        "cells": cells,
        "curves": curves,
    }


def _bench_k(
    chosen: LookupSet,
    k: int,
    targets: Sequence[float],
    tuner: Tuner,
    rivals: Mapping[str, Contender],
    budget: float,
    say: Callable[[str], None],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A cell for every target at one k, and every contender's settings on the way there."""
    queries = chosen.queries(_count_queries(k), HELD_OUT_SEED)
    truth = Truth(chosen.vectors, queries, tuner.exact.search(queries, k))
    tuning_queries = chosen.queries(_count_queries(k), TUNE_SEED)
    tuner.build_for(k)  # on all threads, as the contenders were built
    cells = []
    with using_threads(1):  # the other libraries are told at each search
        climbed = {name: climb(rival, truth, targets, budget, say) for name, rival in rivals.items()}
        for target in targets:
            ours, search = _ours(tuner, tuning_queries, truth, target)
            say(f"k = {k:,}, recall {target}: ours is {ours['recipe']}, recall {ours['recall']:.3f}")
            cells.append(_race(target, ours, search, rivals, climbed, truth, budget * POINT_SHARE))
    points = {name: [asdict(point) for point in climb.points] for name, climb in climbed.items()}
    return cells, {"k": k, "points": points}


def _count_queries(k: int) -> int:
    """Whole batches, fewer for larger k."""
    fewest = FEWEST_QUERIES if k < LARGE_K else FEWEST_AT_LARGE_K
    return BATCH * (max(fewest, min(MOST_QUERIES, NEIGHBOURS // k)) // BATCH)


def _build_all(
    contenders: Mapping[str, Entry], vectors: Vectors, say: Callable[[str], None]
) -> tuple[dict[str, Contender], dict[str, Any]]:
    """Every contender whose library is installed, and for each of all a line on its build or its absence."""
    rivals: dict[str, Contender] = {}
    listed: dict[str, Any] = {}
    for name, entry in contenders.items():
        listed[name] = {"is_flann": entry.is_flann, "build_seconds": None, "note": entry.missing or ""}
        if not listed[name]["note"]:
            rival = rivals[name] = entry.make()
            start = time.perf_counter()
            rival.build(vectors)
            listed[name] |= {"build_seconds": time.perf_counter() - start, "note": rival.note}
            say(f"{name}: built in {listed[name]['build_seconds']:.1f} s {rival.note}")
    return rivals, listed


def _ours(tuner: Tuner, tuning_queries: Vectors, truth: Truth, target: float) -> tuple[dict[str, Any], Search]:
    """Our index as tuned to a promise on other queries, and how it keeps it on these."""
    start = time.perf_counter()
    tuning = tuner.tune(tuning_queries, k=truth.k, recall=target, batch=BATCH)
    seconds = time.perf_counter() - start
    trials = [_plain(asdict(trial)) for trial in tuning.trials]
    taken: dict[str, Any] = next((trial for trial in trials if trial["chosen"]), {})

    def search(queries: Vectors) -> Ids:
        return tuning.index.search(queries, truth.k)

    recalls = truth.recalls(np.concatenate([search(batch) for batch in _batches(truth.queries)]))
    ours = {
        "recipe": tuning.recipe,
        "setting": taken.get("setting", ""),
        "promised": target,
        "recall": float(recalls.mean()),
        "standard_error": float(recalls.std() / np.sqrt(len(recalls))),
        "queries": len(recalls),
        "build_seconds": taken.get("build_seconds"),
        "bytes_per_vector": taken.get("bytes_per_vector"),
        "tune_seconds": seconds,
        "trials": trials,
    }
    return ours, search


def _plain(trial: dict[str, Any]) -> dict[str, Any]:
    """Without NumPy's own numbers, which JSON does not know."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in trial.items()}


def _batches(queries: Vectors) -> Iterator[Vectors]:
    return (queries[start : start + BATCH] for start in range(0, len(queries), BATCH))


def _race(
    target: float,
    ours: dict[str, Any],
    search: Search,
    rivals: Mapping[str, Contender],
    climbed: Mapping[str, Climb],
    truth: Truth,
    seconds: float,
) -> dict[str, Any]:
    """Time ours and every contender's cheapest setting that reaches the target, in turn."""
    rows: dict[str, dict[str, Any]] = {}
    runners = {"ours": search}
    for name, found in climbed.items():
        point = cheapest(found.points, target)
        if point is None:  # if it was stopped, it would need more than the time of its last attempt
            ms_below = found.points[-1].ms
            rows[name] = {"setting": None, "stopped": found.stopped, "note": found.why, "ms_below": ms_below}
            continue
        rows[name] = {"effort": rivals[name].effort, **asdict(point)}
        runners[name] = _searcher(rivals[name], truth.k, point.setting)
    for name, ms in _time_in_turn(runners, truth, seconds).items():
        (ours if name == "ours" else rows[name])["ms"] = ms
    return {"k": truth.k, "target": target, "queries": len(truth.queries), "ours": ours, "contenders": rows}


def _searcher(rival: Contender, k: int, setting: int) -> Search:
    return lambda queries: rival.search(queries, k, setting)


def _time_in_turn(runners: Mapping[str, Search], truth: Truth, seconds: float) -> dict[str, float]:
    """Median milliseconds per query, all in turn in each round: what else the machine does hits all alike."""
    sizes = {name: batch_size(search, truth, seconds / len(runners)) for name, search in runners.items()}
    timings: dict[str, list[float]] = {name: [] for name in runners}
    batches = list(_batches(truth.queries))
    ends = time.perf_counter() + seconds
    for turn in range(MOST_ROUNDS):
        if turn >= LEAST_ROUNDS and time.perf_counter() > ends:
            break
        for name, search in runners.items():
            batch = batches[turn % len(batches)][: sizes[name]]
            begin = time.perf_counter()
            search(batch)
            timings[name].append((time.perf_counter() - begin) / len(batch))
    return {name: 1e3 * median(taken) for name, taken in timings.items()}
