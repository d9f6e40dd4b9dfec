"""Lookups in shards beside one table: equal, how long they take, and what a killed shard makes of them.

One shard is killed amid many lookups; then the same rows are mapped from a file by one table and by four shards.
"""

import argparse
import logging
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import commit, say, spread, write_result
from wolpertinger import ActionTable
from wolpertinger.distributed import ShardedTable, ShardUnavailableError

SHARDS, DIM, KS = 4, 16, (1, 100)
QUERIES = np.random.default_rng(1).normal(size=(64, DIM)).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lookups", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000, help="in the file that is mapped")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    import ray

    ray.init("local", num_cpus=2 * SHARDS, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    result: dict[str, Any] = {"commit": commit(), "shards": SHARDS, "dim": DIM}
    with tempfile.TemporaryDirectory() as folder:
        result["mapped"] = mapped(ray, Path(folder) / "vectors.npy", options.rows, options.rounds)
    for name, replicas in KILLED.items():
        result[f"killed_{name}"] = kill(ray, options.lookups, replicas)
        say(f"{write_result('distributed.shards', result)}")
    ray.shutdown()


KILLED = {"alone": 1, "with_a_replica": 2}


def process_of(ray: Any, table: ShardedTable, number: int) -> int:
    """The process of a shard's first replica."""
    actor = table._shards.places[number].replicas[0].actor
    return ray.get(actor.__ray_call__.remote(lambda shard: os.getpid()))


def kill(ray: Any, lookups: int, replicas: int) -> dict[str, Any]:
    """Many lookups, refused where a shard is missing, with a kill in the middle."""
    vectors = np.random.default_rng(0).normal(size=(20_000, DIM)).astype(np.float32)
    table = ShardedTable(vectors, shards=SHARDS, replicas=replicas, wait=0.0)
    expected = {k: ActionTable(vectors).nearest(QUERIES, k) for k in KS}
    victim = process_of(ray, table, 1)
    complete = refused = wrong = 0
    table.nearest(QUERIES, 1)
    killed_at = whole_at = 0.0
    for number in range(lookups):
        if number == lookups // 2:
            os.kill(victim, signal.SIGKILL)
            killed_at = time.perf_counter()
        k, query = KS[number % 2], number % len(QUERIES)
        try:
            found = table.nearest(QUERIES[query : query + 1], k)
        except ShardUnavailableError:
            refused += 1
            time.sleep(0.01)
            continue
        complete += 1
        wrong += not np.array_equal(found[0], expected[k][query])
        if killed_at and table.revived and not whole_at:
            whole_at = time.perf_counter()
    table.close()
    counts = {"lookups": lookups, "complete": complete, "refused": refused, "wrong_or_short": wrong}
    say(f"{replicas} replicas: {counts}, whole again after {whole_at - killed_at:.1f} s")
    return {**counts, "replicas": replicas, "whole_again_after_seconds": whole_at - killed_at}


def mapped(ray: Any, path: Path, rows: int, rounds: int) -> dict[str, Any]:
    """The same file, mapped by one table and by four shards: memory of the processes, and time per lookup, in turn."""
    write(path, rows)
    one: Any = ActionTable(np.load(path, mmap_mode="r"))
    many = ShardedTable(path, shards=SHARDS)
    processes = [process_of(ray, many, number) for number in range(SHARDS)]
    seconds: dict[str, list[float]] = {}
    for k in KS:
        assert np.array_equal(one.nearest(QUERIES, k), many.nearest(QUERIES, k))
        for batch in (1, len(QUERIES)):
            for _ in range(rounds):
                for name, table in (("one_table", one), ("shards", many)):
                    began = time.perf_counter()
                    table.nearest(QUERIES[:batch], k)
                    seconds.setdefault(f"{name}, k={k}, batch={batch}", []).append(time.perf_counter() - began)
    memory = {"one_table": own_memory(os.getpid()), "each_shard": statistics.median(map(own_memory, processes))}
    say(f"{rows:,} rows: {memory}")
    return {
        "rows": rows,
        "file_bytes": path.stat().st_size,
        "anonymous_bytes": memory,
        "seconds_per_lookup": {name: spread(own) for name, own in seconds.items()},
    }


def write(path: Path, rows: int) -> None:
    """A file of vectors, a part at a time."""
    whole = np.lib.format.open_memmap(path, "w+", np.float32, (rows, DIM))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 1_000_000):
        part: npt.NDArray[Any] = whole[start : start + 1_000_000]
        part[:] = rng.standard_normal(part.shape, np.float32)
    whole.flush()


def own_memory(process: int) -> int:
    """Bytes of a process that are not of a file: what a table needs beside its rows, and the interpreter."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


if __name__ == "__main__":
    main()
