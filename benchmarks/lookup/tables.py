"""The tables of docs/lookup.md, rendered from the result files by benchmarks.tables."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.lookup import growth
from benchmarks.lookup.report import markdown
from benchmarks.lookup.sets import SETS
from benchmarks.measure import read_result


def lookup_table(name: str) -> str:
    """A set's cells: ours, FLANN's best, the best of all, the verdict."""
    found = read_result(f"lookup.{name}")
    return f"{name}: missing" if found is None else markdown(found)


def growth_table() -> str:
    """The time of lookups against the size of the table, and the exponents of their growth."""
    lines = [
        "| vectors | rows | one lookup, ms | in a batch of 64, ms | recall | index | bytes a vector | index only |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for kind in growth.KINDS:
        rows = growth.results(kind)
        lines += [_growth_row(kind, row) for row in rows]
        missing = set(growth.SIZES) - {row["n"] for row in rows}
        lines += [f"| {kind} | {n:,} | missing |||||| " for n in sorted(missing)]
    return "\n".join([*lines, "", _exponents()])


def _exponents() -> str:
    """How the times grow with n, fitted over two ranges of sizes; a range with a missing size has none."""
    lines = [
        "| exponent of n in the time of | vectors | 10^4 to 10^7 rows | 10^5 to 10^7 rows |",
        "| --- | --- | ---: | ---: |",
    ]
    for label, time in (("one lookup", "one_ms"), ("one of a batch of 64", "batch_ms")):
        for kind in growth.KINDS:
            fits = " | ".join(_exponent(growth.results(kind), time, least) for least in (10**4, 10**5))
            lines.append(f"| {label} | {kind} | {fits} |")
    return "\n".join(lines)


def _exponent(rows: list[dict[str, Any]], time: str, least: int) -> str:
    needed = {n for n in growth.SIZES if n >= least}
    return f"{growth.exponent(rows, time, least):.2f}" if needed <= {row["n"] for row in rows} else "missing"


def _growth_row(kind: str, row: dict[str, Any]) -> str:
    setting = f", {row['setting']}" if row["setting"] else ""
    return (
        f"| {kind} | {row['n']:,} | {row['one_ms']:.3f} | {row['batch_ms']:.3f} | {row['recall']:.3f} "
        f"| {row['recipe']}{setting} | {row['bytes_per_vector']:.0f} | {row['index_bytes_per_vector']:.0f} |"
    )


def batch_table() -> str:
    """Throughput of a batch on two threads against single lookups on one."""
    found = read_result("lookup.batch")
    if found is None:
        return "missing"
    labels = ("64 single, 1 thread", "64 single, 2 threads", "batch of 64, 1 thread", "batch of 64, 2 threads")
    lines = [
        f"| set | k | index | {' | '.join(labels)} | gain |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in found["rows"]:
        times = " | ".join(f"{1e3 * row['seconds_per_query'][label]['median']:.3g}" for label in labels)
        lines.append(f"| {row['set']} | {row['k']:,} | {row['index']} | {times} | {row['gain']:.2f} |")
    return "\n".join(lines)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    **{("docs/lookup.md", name): partial(lookup_table, name) for name in SETS},
    ("docs/lookup.md", "growth"): growth_table,
    ("docs/lookup.md", "batches"): batch_table,
}
