"""How the time of one lookup grows with the table: `python -m benchmarks.lookup.growth [--rows N ...]`.

One row of the result for each size, written as soon as it is measured; a size that is there already is skipped. Tables
of more than ten million rows are made in a file and memory-mapped, and only the recipe for huge tables is built.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import RESULTS as ALL_RESULTS
from benchmarks.measure import environment
from wolpertinger.index import Tuner, TuningResult
from wolpertinger.index.measure import recall, seconds_per_query
from wolpertinger.threads import set_threads

RESULTS = ALL_RESULTS / "lookup" / "growth"
DIM, K, PROMISE, HELD_OUT = 20, 100, 0.95, 200
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
CENTRES = 1_000
HUGE = 10_000_000  # rows, beyond which one recipe is tried and the rows come from a file
HUGE_RECIPE = "IVF16384_HNSW32,PQ20x4fs"
BUILD_SECONDS = 300.0
BLOCK = 1_000_000  # rows made at a time

Rows = Callable[[np.random.Generator, int], np.ndarray]


def isotropic(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((n, DIM), dtype=np.float32)


def clustered(rng: np.random.Generator, n: int) -> np.ndarray:
    centres = np.random.default_rng(99).standard_normal((CENTRES, DIM), dtype=np.float32)
    return centres[rng.integers(CENTRES, size=n)] + np.float32(0.3) * isotropic(rng, n)


KINDS: dict[str, Rows] = {"isotropic": isotropic, "clustered": clustered}


def make(rows: Rows, n: int, folder: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if n <= HUGE:
        return rows(rng, n)
    path = Path(folder) / "vectors.npy"
    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, DIM))
    for start in range(0, n, BLOCK):
        table[start : start + BLOCK] = rows(rng, min(BLOCK, n - start))
    table.flush()
    return np.load(path, mmap_mode="r")


def measure(kind: str, n: int, build_threads: int) -> dict[str, Any]:
    """One row: tuned on some queries, measured on others, one at a time and in batches, on one thread."""
    rows = KINDS[kind]
    with tempfile.TemporaryDirectory(dir=RESULTS) as folder:
        vectors = make(rows, n, folder)
        recipes = [HUGE_RECIPE] if n > HUGE else None
        cap = BUILD_SECONDS if n <= HUGE else None
        tuner = Tuner(vectors, build_seconds=np.inf if cap is None else cap, recipes=recipes)
        queries, held_out = rows(np.random.default_rng(1), 1_000), rows(np.random.default_rng(2), HELD_OUT)
        set_threads(build_threads)
        start = time.perf_counter()
        tuner.tune(queries, k=K, recall=PROMISE, batch=1)  # builds
        took = time.perf_counter() - start
        set_threads(1)
        tuning = tuner.tune(queries, k=K, recall=PROMISE, batch=1, build=False)
        exact = tuner.exact.search(held_out, K)
        found = tuning.index.search(held_out, K)
        return {
            "kind": kind,
            "n": n,
            **_times(tuning, held_out),
            "recall": float(recall(tuner.store, held_out, found, exact).mean()),
            "recipe": tuning.recipe,
            "setting": tuning.setting,
            "build_seconds": tuning.chosen.build_seconds,
            "build_threads": build_threads,
            "tuner_build_seconds": cap,
            "held_out": HELD_OUT,
            "tuning_seconds": took,
            "index_bytes_per_vector": tuning.chosen.bytes_per_vector,
            "bytes_per_vector": tuning.chosen.bytes_per_vector + 4 * DIM,
            "tried": [{**vars(trial)} for trial in tuning.trials],
            "skipped": tuning.skipped,
        }


def _times(tuning: TuningResult, queries: np.ndarray) -> dict[str, float]:
    def search(points: np.ndarray) -> Any:
        return tuning.index.search(points, K)

    search(queries[:64])
    return {
        "one_ms": 1e3 * seconds_per_query(search, queries, batch=1, repeats=HELD_OUT),
        "batch_ms": 1e3 * seconds_per_query(search, queries, batch=64, repeats=9),
    }


def results(kind: str) -> list[dict[str, Any]]:
    """The rows that are there, by size."""
    found = [json.loads(path.read_text()) for path in RESULTS.glob(f"{kind}-*.json")]
    return sorted(found, key=lambda row: row["n"])


def exponent(rows: list[dict[str, Any]], time: str = "one_ms", least: int = SIZES[0]) -> float:
    """Of n, in one of the times: the slope of a line through the logarithms, from `least` to ten million rows."""
    rows = [row for row in rows if least <= row["n"] <= HUGE]
    return float(np.polyfit(np.log([row["n"] for row in rows]), np.log([row[time] for row in rows]), 1)[0])


def command(kind: str, n: int, build_threads: int) -> str:
    """What makes one row."""
    return f"python -m benchmarks.lookup.growth --kind {kind} --rows {n} --build-threads {build_threads}"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--kind", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--build-threads", type=int, default=2)
    options = parser.parse_args(arguments)
    for kind in options.kind:
        for n in options.rows:
            path = RESULTS / f"{kind}-{n}.json"
            if path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            row = measure(kind, n, options.build_threads)
            made_by = {"command": command(kind, n, options.build_threads), **environment()}
            path.write_text(json.dumps({**made_by, **row}, indent=2) + "\n")
            print(f"{kind} {n:,}: {row['one_ms']:.3f} ms, recall {row['recall']:.3f}, {row['recipe']}", flush=True)
    for kind in KINDS:
        if len(results(kind)) > 1:
            print(f"{kind}: time of one lookup grows as n to the power {exponent(results(kind)):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
