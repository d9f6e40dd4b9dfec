"""Reproduce some or all of the paper into a folder: runs, results, report."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from reproduction.items import Item
from reproduction.plan import FULL, SCALES, Run, Scale, Variant, runs, variants
from reproduction.report import write_report
from reproduction.results import Results
from reproduction.sweep import alone, sweep


def make_scale(quick: bool = False, seeds: int | None = None, seconds: float | None = None) -> Scale:
    """The full or the quick scale, with the user's own seeds and seconds of every learning run."""
    base = SCALES["quick"] if quick else FULL
    return replace(base, seeds=seeds or base.seeds, seconds=seconds or base.seconds)


def settle_scale(folder: Path, wanted: Scale | None) -> Scale:
    """The scale of the results in a folder: what it was begun with, else the wanted one, which is kept there.

    :param wanted: None goes on as it was begun.
    """
    path = folder / "plan.json"
    if not path.exists():
        return wanted or FULL
    begun = Scale(**json.loads(path.read_text()))
    if wanted is None:
        return begun
    if replace(wanted, seeds=begun.seeds) != begun:
        length = "its own length" if begun.seconds is None else f"{begun.seconds:g} seconds"
        raise ValueError(
            f"{folder} holds a {begun.name} reproduction, each run of {length}: leave out --quick and --budget, "
            "or give another folder with --out"
        )
    return wanted if wanted.seeds is not None else begun


def keep_scale(folder: Path, scale: Scale) -> None:
    draft = folder / "plan.json.draft"
    draft.write_text(json.dumps(asdict(scale), indent=1) + "\n")
    draft.replace(folder / "plan.json")


def needed(items: list[Item], scale: Scale) -> list[Run]:
    """The runs that some items are made of, each once."""
    everything = variants(scale)
    wanted = {key for item in items for key in item.needs}
    return runs({key: variant for key, variant in everything.items() if key in wanted})


def reproduce(items: list[Item], folder: Path, scale: Scale, jobs: int, console: Console | None = None) -> int:
    """Do the runs that have no result yet and write the report, also if one of them fails; how many runs were done."""
    with alone(folder):
        keep_scale(folder, scale)
        try:
            return sweep(needed(items, scale), Results(folder), jobs, console)
        finally:
            report(folder, scale)


def report(folder: Path, scale: Scale) -> tuple[Path, Path]:
    """Write report.html and report.md from the results in a folder."""
    everything: dict[str, Variant] = variants(scale)
    return write_report(Results(folder), everything)
