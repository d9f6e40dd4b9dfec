"""What a lookup result says: verdicts, the table on the screen and the one for the docs."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

SLACK = 0.01  # a promised recall is held within one point
LARGE = 1_000_000  # vectors, from which on...
CAREFUL, WANTED = 0.99, 5.0  # ...at this recall, we want to be so many times quicker than FLANN


def judge(cell: Mapping[str, Any], contenders: Mapping[str, Any], n: int) -> dict[str, Any]:
    """How many times quicker ours is than FLANN's best and than the best of all, and what it misses, from the numbers.

    `cell` has ours and each contender at one k and target; the ratios are None where nobody reached the target, and
    `times_flann_at_least` then says what FLANN's quickest unsuccessful attempt took.
    """
    ours, target = cell["ours"], cell["target"]
    reached = {name: row["ms"] for name, row in cell["contenders"].items() if row["setting"] is not None}
    flann = {name: ms for name, ms in reached.items() if contenders[name]["is_flann"]}
    best_flann, best = (
        min(flann, key=flann.__getitem__, default=None),
        min(reached, key=reached.__getitem__, default=None),
    )
    times_flann = flann[best_flann] / ours["ms"] if best_flann else None
    times_best = reached[best] / ours["ms"] if best else None
    # Where FLANN was stopped below the target, the last setting it tried is still a bound.
    tried = [
        row["ms_below"]
        for name, row in cell["contenders"].items()
        if contenders[name]["is_flann"] and "ms_below" in row
    ]
    at_least = min(tried) / ours["ms"] if tried and best_flann is None else None
    wanted = WANTED if target >= CAREFUL and n >= LARGE else 1.0
    misses = []
    if ours["recall"] < target - SLACK:
        misses.append(f"promise missed by {100 * (target - ours['recall']):.1f} points ({_error(ours)})")
    if times_flann is not None and times_flann < 1:
        misses.append(f"slower than {best_flann}")
    elif times_flann is not None and times_flann < wanted:
        misses.append(f"{times_flann:.1f} times {best_flann}'s speed, {WANTED:g} wanted")
    if at_least is not None and at_least < wanted:
        misses.append(
            f"undecided: FLANN was stopped below the recall at {at_least:.1f} times our time, {wanted:g} wanted"
        )
    return {
        "best_flann": best_flann,
        "times_flann": times_flann,
        "times_flann_at_least": at_least,
        "best": best,
        "times_best": times_best,
        "promise_held": ours["recall"] >= target - SLACK,
        "misses": misses,
    }


def verdict(cell: Mapping[str, Any]) -> str:
    """The cell in one line: what it misses, or that it holds."""
    remarks = list(cell["misses"]) or ["holds"]
    at_least = cell["times_flann_at_least"]
    if at_least is not None and not cell["misses"]:
        remarks.append(f"no FLANN index reached the recall within {at_least:.1f} times our time")
    elif at_least is None and cell["best_flann"] is None:
        remarks.append("FLANN was not measured")
    return "; ".join(remarks)


def table(result: Mapping[str, Any]) -> Table:
    """Every contender at every k and target, the verdict beside ours, and a row for each library that is missing."""
    shown = Table(title=_title(result), caption=_caption(result))
    for heading in ("k", "recall wanted"):
        shown.add_column(heading, justify="right")
    shown.add_column("index", overflow="fold")
    for heading in ("recall found", "ms/query", "times ours", "build s"):
        shown.add_column(heading, justify="right")
    shown.add_column("verdict")
    for cell in result["cells"]:
        ours = cell["ours"]
        shown.add_section()
        shown.add_row(
            f"{cell['k']:,}",
            f"{cell['target']:g}",
            f"[bold]ours[/bold] {_name(ours['recipe'], ours['setting'])}",
            f"{ours['recall']:.3f}",
            _ms(ours["ms"]),
            "",
            _seconds(ours["build_seconds"]),
            verdict(cell),
            style="red" if cell["misses"] else "green",
        )
        for name, row in cell["contenders"].items():
            shown.add_row("", "", *_contender_cells(name, row, ours["ms"], result["contenders"][name]))
    shown.add_section()
    for name, contender in result["contenders"].items():
        if contender["build_seconds"] is None:
            shown.add_row("", "", name, "", "", "", "", contender["note"])
    return shown


def _contender_cells(name: str, row: Mapping[str, Any], ours_ms: float, built: Mapping[str, Any]) -> list[str]:
    seconds = _seconds(built["build_seconds"])
    if row["setting"] is None:
        return [name, "", "", "", seconds, row["note"]]
    label = f"{name}, {row['effort']} {row['setting']:,}"
    return [label, f"{row['recall']:.3f}", _ms(row["ms"]), f"{row['ms'] / ours_ms:.2f}", seconds, ""]


def markdown(result: Mapping[str, Any]) -> str:
    """One line for each k and target: ours, FLANN's best, the best of all, and the verdict."""
    lines = [
        f"### {_title(result)}",
        "",
        f"{result['description'][:1].upper()}{result['description'][1:]}. {_caption(result)}",
        "",
        "| k | recall wanted | ours | recall held out | ms/query "
        "| FLANN's best | ms/query | times | best of all | times | verdict |",
        "| ---: | ---: | --- | ---: | ---: | --- | ---: | ---: | --- | ---: | --- |",
    ]
    lines += [_markdown_row(cell) for cell in result["cells"]]
    notes = [f"{name}: {contender['note']}" for name, contender in result["contenders"].items() if contender["note"]]
    return "\n".join([*lines, *([""] + [f"- {note}." for note in notes] if notes else [])]) + "\n"


def _markdown_row(cell: Mapping[str, Any]) -> str:
    ours = cell["ours"]
    return "| " + " | ".join([
        f"{cell['k']:,}",
        f"{cell['target']:g}",
        _name(ours["recipe"], ours["setting"]),
        f"{ours['recall']:.3f} ({_error(ours)})",
        _ms(ours["ms"]),
        *_rival(cell, "flann"),
        *(_rival(cell, "best")[::2]),
        verdict(cell),
    ]) + " |"  # fmt: skip


def _rival(cell: Mapping[str, Any], which: str) -> tuple[str, str, str]:
    """Name with its setting, milliseconds and how many times slower than ours: of FLANN's best, or of the best."""
    name = cell["best_flann"] if which == "flann" else cell["best"]
    if name is None:
        return "none", "", ""
    row = cell["contenders"][name]
    return f"{name}, {row['effort']} {row['setting']:,}", _ms(row["ms"]), f"{cell[f'times_{which}']:.2f}"


def _title(result: Mapping[str, Any]) -> str:
    return f"{result['set']}: {result['n']:,} x {result['dim']}"


def _caption(result: Mapping[str, Any]) -> str:
    queries = ", ".join(
        f"{count:,} at k = {k:,}" for k, count in {c["k"]: c["queries"] for c in result["cells"]}.items()
    )
    return f"One thread, batches of {result['batch']}; held-out queries: {queries}."


def _name(recipe: str, setting: str) -> str:
    return f"{recipe}, {setting}" if setting else recipe


def _error(ours: Mapping[str, Any]) -> str:
    return f"± {ours['standard_error']:.3f}"


def _ms(ms: float) -> str:
    return f"{ms:.3g}" if ms < 100 else f"{ms:,.0f}"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"
