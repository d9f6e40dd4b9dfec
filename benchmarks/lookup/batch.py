"""Batches of lookups against single ones, beside a busy network: `python -m benchmarks.lookup.batch`.

Each round also runs a product of matrices in torch, as training does between lookups: two pools of threads that wait on
each other would show here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.lookup.sets import SETS
from benchmarks.measure import summarise, time_rounds, write_result
from wolpertinger.index import Index, Tuner
from wolpertinger.threads import using_threads

CASES = (
    ("recommender-20", 1),
    ("recommender-20", 131),
    ("recommender-20", 656),
    ("isotropic", 1),
    ("isotropic", 100),
)
RECALL, BATCH, ROUNDS = 0.95, 64, 15
THREADS = 2
BUILD_SECONDS = 30.0
WANTED = 1.5


def product() -> None:
    a = torch.ones(400, 400)
    for _ in range(5):
        a = a @ torch.ones(400, 400) * 1e-3


def contenders(index: Index, k: int, queries: np.ndarray) -> dict[str, Callable[[], int]]:
    def singles(threads: int) -> Callable[[], int]:
        def work() -> int:
            with using_threads(threads):
                for query in queries:
                    index.search(query[None], k)
            return len(queries)

        return work

    def batch(threads: int) -> Callable[[], int]:
        def work() -> int:
            with using_threads(threads):
                index.search(queries, k)
            return len(queries)

        return work

    def busy() -> int:
        with using_threads(THREADS):
            product()
        return 1

    return {
        "product of matrices": busy,
        "64 single, 1 thread": singles(1),
        "product again": busy,
        "64 single, 2 threads": singles(THREADS),
        "batch of 64, 1 thread": batch(1),
        "product once more": busy,
        "batch of 64, 2 threads": batch(THREADS),
    }


def measure(name: str, tuner: Tuner, k: int, chosen: Any) -> dict[str, Any]:
    tuning = tuner.tune(chosen.queries(1_000, 0), k=k, recall=RECALL)
    queries = np.asarray(chosen.queries(BATCH, 1), np.float32)
    work = contenders(tuning.index, k, queries)
    for warm_up in work.values():
        warm_up()
    seconds = time_rounds(work, ROUNDS)
    times = {label: summarise(samples) for label, samples in seconds.items() if "product" not in label}
    pairs = zip(seconds["64 single, 1 thread"], seconds["batch of 64, 2 threads"], strict=True)
    gain = float(np.median([single / batch for single, batch in pairs]))
    row = {"set": name, "n": tuner.store.n, "k": k, "index": f"{tuning.recipe} ({tuning.setting})", "gain": gain}
    print(f"{name}, k = {k:,}: {gain:.2f} times, {row['index']}", flush=True)
    return {**row, "holds": gain >= WANTED, "seconds_per_query": times}


def main() -> None:
    rows = []
    for name in dict.fromkeys(name for name, _ in CASES):
        chosen = SETS[name]()
        tuner = Tuner(chosen.vectors, build_seconds=BUILD_SECONDS)
        rows += [measure(name, tuner, k, chosen) for other, k in CASES if other == name]
    print(write_result("lookup.batch", {"recall": RECALL, "wanted": WANTED, "rows": rows}))


if __name__ == "__main__":
    main()
