"""The tables of docs/performance.md, rendered from the result files of benchmarks.speed by benchmarks.tables."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks.speed.agents import BATCH, PARTS
from benchmarks.speed.paper import STEPS_PER_SECOND
from benchmarks.speed.results import RESULTS, cell, ratio, read, reading_from, row, seconds, step_row
from benchmarks.speed.verdict import ALL_TARGETS, Target, judge

MISSING = "missing"
STATES = BATCH + 1  # that candidates are ranked in, in a step: those of an update, and the one acted in
EXTRA = ("structured", "screened", "obvious", "default")  # contenders that the paper's tables have no column for
ROW_200 = ("exact", "screened", "obvious", "default")


def lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; its first column is text, the others are numbers."""
    ruler = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [headings, ruler, *rows])


def number(value: float | None, form: str = "{:.3g}") -> str:
    return MISSING if value is None else form.format(value)


def milliseconds(value: float | None) -> str:
    return MISSING if value is None else f"{1e3 * value:,.0f}" if value >= 1 else f"{1e3 * value:.3g}"


def steps_table(task: str) -> str:
    """One of the paper's three tables, ours beside theirs, and where the time of our step goes."""
    headings = [
        "k, lookup",
        *("steps/s, paper", "steps/s, ours", "relative, paper", "relative, ours", "ms a step"),
        *("lookup", "re-rank", "gradient", "other", "bound", "times the obvious"),
    ]
    rows = []
    for k, theirs in STEPS_PER_SECOND[task].items():
        known = (step_row(task, k) or {}).get("cells", {})
        for contender in [*theirs, *(name for name in EXTRA if name in known)]:
            rows.append([f"{k:,}, {contender}", *_steps_cells(task, k, contender)])
    return lines(headings, rows)


def _steps_cells(task: str, k: int, contender: str) -> list[str]:
    paper = STEPS_PER_SECOND[task]
    theirs, found = paper[k].get(contender), cell(task, k, contender)
    compared = ["" if theirs is None else f"{theirs:g}", MISSING, "", ""]
    if theirs is not None:
        compared[2] = number(theirs / paper[1]["exact"])
    if found is None:
        cells = (step_row(task, k) or {}).get("cells", {})
        unfit = cells.get(contender, {}).get("does_not_fit")
        return [
            compared[0],
            MISSING if unfit is None else f"does not fit: {unfit / 1e9:.0f} GB",
            *compared[2:],
            *[""] * 7,
        ]
    own = found["seconds"]["median"]
    compared[1] = number(1 / own)
    compared[3] = number(ratio(seconds(task, 1, "exact"), own))
    # The defaults are other networks, which the obvious implementation was not timed with.
    unfit = "does_not_fit" in (step_row(task, k) or {}).get("cells", {}).get("obvious", {})
    times = "" if unfit or contender == "default" else number(ratio(seconds(task, k, "obvious"), own), "{:.2f}")
    parts = [milliseconds(found["parts"][name]) for name in PARTS]
    return [*compared, milliseconds(own), *parts, milliseconds(found["bound_seconds"]), times]


def wide_table() -> str:
    """200 dimensions at k = 656."""
    headings = ["contender", "steps/s", "ms a step", "lookup", "re-rank", "gradient", "other", "bound"]
    rows = []
    for contender in ROW_200:
        found = cell("recommender-200", 656, contender)
        if found is None:
            rows.append([contender, MISSING, *[""] * 6])
            continue
        own = found["seconds"]["median"]
        times = [own, *(found["parts"][name] for name in PARTS), found["bound_seconds"]]
        rows.append([contender, number(1 / own), *map(milliseconds, times)])
    return lines(headings, rows)


def floor_table() -> str:
    headings = ["k = 1", "actions", "ours, ms", "DDPG, ms", "ratio", "lookup's share", "index"]
    return _rows_table("floor", headings, _floor_row)


def _floor_row(entry: dict[str, Any]) -> list[str]:
    times = [milliseconds(entry["seconds"][name]["median"]) for name in ("ours", "DDPG")]
    share = f"{entry['lookup_share']:.1%}"
    return [entry["set"], f"{entry['n']:,}", *times, f"{entry['ratio']['median']:.2f}", share, entry["index"]]


def rerank_table() -> str:
    """Shares of the machine's rate, and the times."""
    headings = ["64 x 656 candidates", "ms", "GFLOP/s", "matrix products, GFLOP/s", "share", "time over exact"]
    rows = []
    for entry in (read("rerank") or {}).get("rows", []):
        for contender, found in entry["cells"].items():
            rates = [f"{rate / 1e9:.0f}" for rate in (found["flops_per_second"], entry["flops_per_second"])]
            ratios = [f"{found['share']:.1%}", f"{found['times_exact']:.2f}"]
            rows.append([f"{entry['dim']}-d, {contender}", milliseconds(found["seconds"]["median"]), *rates, *ratios])
    return lines(headings, rows) if rows else MISSING


def screening_table() -> str:
    headings = ["recommender, networks", "updates", "states", "same choice", "advantage lost"]
    return _rows_table("screening", headings, _screening_row)


def _screening_row(entry: dict[str, Any]) -> list[str]:
    counts = [f"{entry[name]:,}" for name in ("updates", "states")]
    shares = [f"{entry['agreement']:.2%}", f"{entry['advantage_lost']:.1e}"]
    return [f"{entry['set']}, {entry['networks']}", *counts, *shares]


def acting_table() -> str:
    headings = ["task, k", "states", "exact, ms", "screened, ms", "DDPG, ms"]
    return _rows_table("acting", headings, _acting_row)


def _acting_row(entry: dict[str, Any]) -> list[str]:
    times = [(entry["seconds"].get(name) or {}).get("median") for name in ("exact", "screened", "DDPG")]
    return [f"{entry['task']}, {entry['k']:,}", str(entry["states"]), *map(milliseconds, times)]


def growth_table() -> str:
    headings = ["k", "s a step", "lookup", "re-rank", "µs a candidate", "peak, MB", "MB above k = 1"]
    return _rows_table("growth", headings, _growth_row)


def _growth_row(entry: dict[str, Any]) -> list[str]:
    first = row("growth", k=1)
    own, k = entry["seconds"], entry["k"]
    each = "" if k == 1 or first is None else number(1e6 * (own - first["seconds"]) / k / STATES)
    parts = [number(entry["parts"][name]) for name in ("lookup", "rerank")]
    memory = [f"{entry['peak_bytes'] / 1e6:,.0f}", f"{entry['megabytes_above_first']:,.0f}"]
    return [f"{k:,}", number(own), *parts, each, *memory]


def profile_table() -> str:
    """Milliseconds a step by kind of work; the kinds are rows, the cases columns."""
    rows = (read("profile") or {}).get("rows", [])
    if not rows:
        return MISSING
    headings = ["ms a step", *(f"{row['task']}, k = {row['k']:,}, {row['rerank']}" for row in rows)]
    kinds = sorted({kind for row in rows for kind in row["spent"]}, key=lambda kind: -rows[0]["spent"].get(kind, 0.0))
    table = [[kind, *(milliseconds(row["spent"].get(kind, 0.0)) for row in rows)] for kind in kinds]
    for label, name in (("all, under the profiler", "profiled_seconds"), ("all, without it", "seconds")):
        table.append([label, *(milliseconds(row[name]) for row in rows)])
    return lines(headings, table)


def _rows_table(part: str, headings: list[str], render: Callable[[dict[str, Any]], list[str]]) -> str:
    result = read(part)
    return MISSING if result is None else lines(headings, [render(entry) for entry in result["rows"]])


def verdict_table() -> str:
    rows = [[found.target, found.wanted, found.measured, found.verdict] for found in judge()]
    return lines(["target", "wanted", "measured", "verdict"], rows)


def house_table() -> str:
    """The verdicts before the house was rebuilt, once it was, and at present: the same parts in turn on one machine."""
    found: dict[str, list[float | None]] = {}
    for side in ("before", "rebuilt", "after"):
        with reading_from(RESULTS / "house" / side):
            found[side] = [target.measure() for target in ALL_TARGETS]
    rows = [
        [
            target.name,
            *(number(value, target.form) for value in values),
            *(_worse(target, values[0], x) for x in values[1:]),
        ]
        for target, *values in zip(ALL_TARGETS, *found.values(), strict=True)
        if values[0] is not None and values[2] is not None
    ]
    return lines(["target", "before", "rebuilt", "present", "rebuilt: worse by", "present: worse by"], rows)


def _worse(target: Target, before: float | None, after: float | None) -> str:
    if not before or not after:
        return ""
    times = after / before if target.most < math.inf else before / after
    return f"{max(0.0, times - 1):.0%}"


DOCUMENT = "docs/performance.md"
TABLES: dict[tuple[str, str], Callable[[], str]] = {
    (DOCUMENT, "verdicts"): verdict_table,
    **{(DOCUMENT, task): partial(steps_table, task) for task in STEPS_PER_SECOND},
    (DOCUMENT, "recommender-200"): wide_table,
    (DOCUMENT, "rerank"): rerank_table,
    (DOCUMENT, "screening"): screening_table,
    (DOCUMENT, "floor"): floor_table,
    (DOCUMENT, "acting"): acting_table,
    (DOCUMENT, "growth"): growth_table,
    (DOCUMENT, "profile"): profile_table,
    ("docs/decisions/027-one-house.md", "house"): house_table,
}
