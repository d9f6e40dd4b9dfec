"""The paper's figures, tables and claims, from runs to a report: `python -m reproduction [NAME...]`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from reproduction.items import Item, choose_items
from reproduction.plan import Scale
from reproduction.reproduce import make_scale, needed, report, reproduce, settle_scale
from reproduction.results import Results
from reproduction.sweep import SweepError, expected_seconds
from wolpertinger.cli.options import at_least, explain_errors, with_example

EXAMPLE = """example:
  python -m reproduction --list
  python -m reproduction figure-6 lemma --quick --out results/quick
  python -m reproduction all --quick
  python -m reproduction all --seeds 5 --budget 600 --out results/mine
  python -m reproduction --report --out results"""
RESULTS, QUICK_RESULTS = Path("results"), Path("results") / "quick"


def main(arguments: Sequence[str] | None = None) -> int:
    """Reproduce what was asked for; bad input ends in one line on standard error and exit code 2."""
    options = _parser().parse_args(arguments)
    return explain_errors("python -m reproduction", lambda: _reproduce(options), SweepError)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reproduction",
        description="The paper's figures, tables and claims, from runs to a report.",
        **with_example(EXAMPLE),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="all (default), or some of --list")
    parser.add_argument("--list", action="store_true", help="what there is, and which of its runs are done")
    parser.add_argument("--quick", action="store_true", help="rough: one seed of 12 seconds, all in half an hour")
    parser.add_argument("--seeds", type=at_least(1), help="of every learning run (default: 3, or 5 where it is short)")
    parser.add_argument(
        "--budget", type=float, metavar="SECONDS", help="of training, of every learning run (default: by its task)"
    )
    parser.add_argument("--jobs", type=at_least(1), help="learning runs side by side, one thread each (default: cores)")
    parser.add_argument("--report", action="store_true", help="only write the report again, from the results there are")
    parser.add_argument(
        "--out", type=Path, help=f"folder of results (default: {RESULTS}, with --quick {QUICK_RESULTS})"
    )
    return parser


def _reproduce(options: argparse.Namespace) -> None:
    items = choose_items(options.names)
    if options.budget is not None and not options.budget > 0:
        raise ValueError(f"--budget {options.budget}: give more than 0 seconds")
    folder = options.out or (QUICK_RESULTS if options.quick else RESULTS)
    asked = options.quick or options.seeds is not None or options.budget is not None
    scale = settle_scale(folder, make_scale(options.quick, options.seeds, options.budget) if asked else None)
    console = Console()
    if options.list:
        console.print(_list(items, folder, scale))
        return
    if options.report:
        if not (folder / "runs").exists():
            raise FileNotFoundError(f"{folder} holds no results: reproduce something into it first")
        page, document = report(folder, scale)
    else:
        jobs = options.jobs or os.cpu_count() or 1
        reproduce(items, folder, scale, jobs, console)
        page, document = folder / "report.html", folder / "report.md"
    console.print(f"report: {page}, {document}", highlight=False, soft_wrap=True)


def _list(items: list[Item], folder: Path, scale: Scale) -> Table:
    results = Results(folder)
    table = Table(title=f"the paper's figures and tables; results in {folder}")
    table.add_column("name", no_wrap=True)
    table.add_column("what it shows")
    for heading in ("runs", "done", "core hours left"):
        table.add_column(heading, justify="right")

    def add(name: str, what: str, chosen: list[Item]) -> None:
        own = needed(chosen, scale)
        left = [run for run in own if results.read(run) is None]
        hours = sum(map(expected_seconds, left)) / 3600
        table.add_row(name, what, str(len(own)), str(len(own) - len(left)), f"{hours:.1f}")

    for item in items:
        add(item.name, item.title, [item])
    table.add_section()
    add("together", "each run once", items)
    return table


if __name__ == "__main__":
    sys.exit(main())
