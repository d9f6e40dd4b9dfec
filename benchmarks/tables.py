"""The tables of README.md and docs/, rendered from the result files: `python -m benchmarks.tables`.

A result that is not there reads "missing"; no number is typed by hand, and a test compares the documents with this.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import (
    action_map,
    choosing_k,
    learning,
    lookup,
    lookup_growth,
    recommender_limits,
    search_learning,
    search_swing,
    speed_tables,
)
from benchmarks.measure import RESULTS
from wolpertinger.runs.lookup_report import markdown

ROOT = Path(__file__).parent.parent


def lookup_table(name: str) -> str:
    """A set's cells: ours, FLANN's best, the best of all, the verdict."""
    path = RESULTS / "lookup" / f"{name}.json"
    return markdown(json.loads(path.read_text())) if path.exists() else f"{name}: missing"


def growth_table() -> str:
    """The time of lookups against the size of the table, and the exponents of their growth."""
    lines = [
        "| vectors | rows | one lookup, ms | in a batch of 64, ms | recall | index | bytes a vector | index only |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for kind in lookup_growth.KINDS:
        rows = lookup_growth.results(kind)
        lines += [_growth_row(kind, row) for row in rows]
        missing = set(lookup_growth.SIZES) - {row["n"] for row in rows}
        lines += [f"| {kind} | {n:,} | missing |||||| " for n in sorted(missing)]
    return "\n".join([*lines, "", _exponents()])


def _exponents() -> str:
    """How the times grow with n, fitted over two ranges of sizes; a range with a missing size has none."""
    lines = [
        "| exponent of n in the time of | vectors | 10^4 to 10^7 rows | 10^5 to 10^7 rows |",
        "| --- | --- | ---: | ---: |",
    ]
    for label, time in (("one lookup", "one_ms"), ("one of a batch of 64", "batch_ms")):
        for kind in lookup_growth.KINDS:
            fits = " | ".join(_exponent(lookup_growth.results(kind), time, least) for least in (10**4, 10**5))
            lines.append(f"| {label} | {kind} | {fits} |")
    return "\n".join(lines)


def _exponent(rows: list[dict[str, Any]], time: str, least: int) -> str:
    needed = {n for n in lookup_growth.SIZES if n >= least}
    return f"{lookup_growth.exponent(rows, time, least):.2f}" if needed <= {row["n"] for row in rows} else "missing"


def _growth_row(kind: str, row: dict[str, Any]) -> str:
    setting = f", {row['setting']}" if row["setting"] else ""
    return (
        f"| {kind} | {row['n']:,} | {row['one_ms']:.3f} | {row['batch_ms']:.3f} | {row['recall']:.3f} "
        f"| {row['recipe']}{setting} | {row['bytes_per_vector']:.0f} | {row['index_bytes_per_vector']:.0f} |"
    )


def batch_table() -> str:
    """Throughput of a batch on two threads against single lookups on one."""
    path = RESULTS / "lookup_batch.json"
    if not path.exists():
        return "missing"
    labels = ("64 single, 1 thread", "64 single, 2 threads", "batch of 64, 1 thread", "batch of 64, 2 threads")
    lines = [
        f"| set | k | index | {' | '.join(labels)} | gain |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in json.loads(path.read_text())["rows"]:
        times = " | ".join(f"{1e3 * row['seconds_per_query'][label]['median']:.3g}" for label in labels)
        lines.append(f"| {row['set']} | {row['k']:,} | {row['index']} | {times} | {row['gain']:.2f} |")
    return "\n".join(lines)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    **learning.TABLES,
    **recommender_limits.TABLES,
    **search_learning.TABLES,
    **search_swing.TABLES,
    **action_map.TABLES,
    **{("docs/lookup.md", name): (lambda name=name: lookup_table(name)) for name in lookup.SETS},  # type: ignore[misc]
    ("docs/lookup.md", "growth"): growth_table,
    ("docs/lookup.md", "batches"): batch_table,
    **speed_tables.TABLES,
    **choosing_k.TABLES,
}


def render(text: str, name: str, table: str) -> str:
    """Text with the part between the table's markers replaced."""
    begin, end = f"<!-- {name}: python -m benchmarks.tables -->", f"<!-- /{name} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{table.strip()}\n{end}{rest.split(end)[1]}"


def main() -> None:
    for (file, name), table in TABLES.items():
        path = ROOT / file
        path.write_text(render(path.read_text(), name, table()))


if __name__ == "__main__":
    main()
