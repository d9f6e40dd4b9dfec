"""A lookup result as a table on the screen and as one for the docs, judged as it is shown."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from benchmarks.lookup.verdict import Rivals, judge
from wolpertinger.index.tune import BUILD_SECONDS

OLD_BUILD_SECONDS = 600.0  # of every result file that does not say


def table(result: Mapping[str, Any]) -> Table:
    """Every contender at every k and target, the verdict under ours, and a row for each library that is missing."""
    caption = f"recall wanted and found; ms: a query; times: ours. {_caption(result)}"
    shown = Table(title=_title(result), caption=caption, box=box.SIMPLE_HEAD)
    for heading in ("k", "wanted"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("index", overflow="fold")
    for heading in ("found", "ms", "times", "build s"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for cell in result["cells"]:
        ours, verdict = cell["ours"], judge(cell, result)
        shown.add_section()
        shown.add_row(
            f"{cell['k']:,}",
            f"{cell['target']:g}",
            f"[bold]ours[/bold] {_name(ours['recipe'], ours['setting'])}",
            f"{ours['recall']:.3f}",
            _ms(ours["ms"]),
            "",
            _seconds(ours["build_seconds"]),
            style=(style := "red" if verdict.misses else "green"),
        )
        shown.add_row("", "", str(verdict), style=style)
        for name, row in cell["contenders"].items():
            shown.add_row("", "", *_contender_cells(name, row, ours["ms"], result["contenders"][name]))
    shown.add_section()
    for name, contender in result["contenders"].items():
        if contender["build_seconds"] is None:
            shown.add_row("", "", f"{name}: {contender['note']}", style="dim")
    return shown


def _contender_cells(name: str, row: Mapping[str, Any], ours_ms: float, built: Mapping[str, Any]) -> list[str]:
    seconds = _seconds(built["build_seconds"])
    if row["setting"] is None:
        return [f"{name}: {row['note']}", "", "", "", seconds]
    label = f"{name}, {row['effort']} {row['setting']:,}"
    return [label, f"{row['recall']:.3f}", _ms(row["ms"]), f"{row['ms'] / ours_ms:.2f}", seconds]


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
    lines += [_markdown_row(cell, result) for cell in result["cells"]]
    notes = [f"{name}: {contender['note']}" for name, contender in result["contenders"].items() if contender["note"]]
    return "\n".join([*lines, *([""] + [f"- {note}." for note in notes] if notes else [])]) + "\n"


def _markdown_row(cell: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    ours, verdict = cell["ours"], judge(cell, result)
    return "| " + " | ".join([
        f"{cell['k']:,}",
        f"{cell['target']:g}",
        _name(ours["recipe"], ours["setting"]),
        f"{ours['recall']:.3f} (± {ours['standard_error']:.3f})",
        _ms(ours["ms"]),
        *_rival(cell, verdict.flann),
        *(_rival(cell, verdict.everyone)[::2]),
        str(verdict),
    ]) + " |"  # fmt: skip


def _rival(cell: Mapping[str, Any], rivals: Rivals) -> tuple[str, str, str]:
    """The best of them with its setting, milliseconds and how many times slower than ours, or at least so many."""
    times = "" if rivals.times is None else f"{rivals.times:.2f}"
    if rivals.at_least is not None:
        times = f"≥ {rivals.at_least:.2f}"
    if rivals.best is None:
        return "none", "", times
    row = cell["contenders"][rivals.best]
    return f"{rivals.best}, {row['effort']} {row['setting']:,}", _ms(row["ms"]), times


def _title(result: Mapping[str, Any]) -> str:
    return f"{result['set']}: {result['n']:,} x {result['dim']}"


def _caption(result: Mapping[str, Any]) -> str:
    queries = ", ".join(
        f"{count:,} at k = {k:,}" for k, count in {c["k"]: c["queries"] for c in result["cells"]}.items()
    )
    build = result.get("build_seconds", OLD_BUILD_SECONDS)
    return (
        f"One thread, batches of {result['batch']}; held-out queries: {queries}; ± is one standard error. "
        f"Each other library had {result['budget_seconds']:g} s to find its settings at each k; "
        f"ours had up to {build:g} s to build in (the library's own default is {BUILD_SECONDS:g} s)."
    )


def _name(recipe: str, setting: str) -> str:
    return f"{recipe}, {setting}" if setting else recipe


def _ms(ms: float) -> str:
    return f"{ms:.3g}" if ms < 100 else f"{ms:,.0f}"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"
