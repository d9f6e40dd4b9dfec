"""`wolpertinger index tune` and `index bench`: nearest-neighbour lookup, chosen and measured."""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from wolpertinger.cli_options import at_least, number, recall, with_example
from wolpertinger.index.tune import BATCH, BUILD_SECONDS
from wolpertinger.runs.lookup_sets import SETS, LookupSet, from_file
from wolpertinger.threads import set_threads

TUNE_EXAMPLE = """example:
  wolpertinger index tune vectors.npy --k 100 --recall 0.99
  wolpertinger index tune vectors.npy --k 0.01 --recall medium --queries protos.npy --out actions.zip"""
BENCH_EXAMPLE = """example:
  wolpertinger index bench vectors.npy --queries queries.npy --k 1 0.01 --recall 0.9 0.99
  wolpertinger index bench --set clustered --rows 100000 --budget 10 --out runs/clustered"""

RECALL_HELP = 'a share, or the paper\'s "slow" (0.99), "medium" (0.9), "fast" (0.7)'


def add_index(commands: Any) -> None:
    """Add `index` and its commands."""
    parser = commands.add_parser("index", help="nearest-neighbour lookup", **with_example(TUNE_EXAMPLE))
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    _add_tune(
        subcommands.add_parser("tune", help="the fastest index that keeps a recall", **with_example(TUNE_EXAMPLE))
    )
    _add_bench(
        subcommands.add_parser(
            "bench", help="recall against time, ours and other libraries", **with_example(BENCH_EXAMPLE)
        )
    )


def _add_tune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("vectors", type=Path, metavar="VECTORS.npy", help="the actions' vectors (n, dim)")
    parser.add_argument("--k", type=number, required=True, help="neighbours: a count, or a share with a point")
    parser.add_argument(
        "--recall",
        type=recall,
        default=0.99,
        help=f"to keep: {RECALL_HELP} (default: %(default)s)",
    )
    parser.add_argument(
        "--queries", type=Path, metavar="Q.npy", help="proto-actions to tune on (default: rows of VECTORS plus noise)"
    )
    parser.add_argument("--batch", type=at_least(1), default=BATCH, help="queries in a lookup (default: %(default)s)")
    parser.add_argument(
        "--build-seconds", type=float, default=BUILD_SECONDS, metavar="SECONDS",
        help="the most to spend on building (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--recipe", help="tune this FAISS recipe instead of trying those on our own list")
    parser.add_argument("--threads", type=at_least(1), help="for the lookups (default: as torch decides)")
    parser.add_argument("--out", type=Path, help="write the table with its index; ActionTable.load reads it")
    parser.add_argument("--json", action="store_true", help="print all that was tried as JSON")
    parser.set_defaults(run=_tune)


def _tune(options: argparse.Namespace) -> None:
    from wolpertinger.runs import lookup_tune

    if options.threads is not None:
        set_threads(options.threads)
    chosen = from_file(options.vectors, options.queries)
    found = lookup_tune.tune(
        chosen,
        k=options.k,
        recall=options.recall,
        batch=options.batch,
        build_seconds=options.build_seconds,
        recipe=options.recipe,
    )
    if options.out is not None:
        found.table.save(options.out)
    if options.json:
        print(json.dumps(lookup_tune.as_json(found), indent=1))
        return
    console = Console()
    console.print(lookup_tune.table(found))
    console.print(lookup_tune.summary(found), highlight=False)
    if options.out is not None:
        console.print(f"table with its index: {options.out}", highlight=False, soft_wrap=True)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("vectors", nargs="?", type=Path, metavar="VECTORS.npy", help="your own vectors (n, dim)")
    parser.add_argument("--set", dest="name", choices=SETS, help="vectors that come with the library")
    parser.add_argument(
        "--queries", type=Path, metavar="Q.npy", help="queries for VECTORS.npy (default: its rows plus noise)"
    )
    parser.add_argument(
        "--k",
        nargs="+",
        type=number,
        default=[1, 0.01, 0.05],
        help="counts, or shares with a point (default: 1 0.01 0.05)",
    )
    parser.add_argument(
        "--recall",
        nargs="+",
        type=recall,
        default=[0.7, 0.9, 0.99],
        help=f"wanted: {RECALL_HELP} (default: 0.7 0.9 0.99)",
    )
    parser.add_argument("--rows", type=at_least(2), help="use only so many vectors (default: all)")
    parser.add_argument(
        "--budget", type=float, default=60.0, metavar="SECONDS",
        help="for each library at each k, without its build (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, help="folder of the result and the plot (default: runs/lookup-NAME)")
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> None:
    from wolpertinger.runs.lookup import bench  # slow to import, and only this command needs them
    from wolpertinger.runs.lookup_plot import plot_lookup
    from wolpertinger.runs.lookup_report import table

    if not options.budget > 0:
        raise ValueError(f"--budget {options.budget:g}: give a number of seconds above 0")
    chosen = _choose(options)
    folder = options.out or Path("runs") / f"lookup-{chosen.name}"
    folder.mkdir(parents=True, exist_ok=True)  # before the minutes of work
    progress, console = Console(stderr=True), Console()
    result = bench(
        chosen,
        ks=options.k,
        targets=options.recall,
        budget=options.budget,
        say=lambda line: progress.print(line, style="dim", highlight=False),
    )
    (folder / "lookup.json").write_text(json.dumps(result, indent=2) + "\n")
    plot = plot_lookup(result, folder / "lookup.png")
    console.print(table(result))
    console.print(f"result: {folder / 'lookup.json'}\nplot: {plot}", highlight=False, soft_wrap=True)


def _choose(options: argparse.Namespace) -> LookupSet:
    """The vectors that were asked for: the user's file, or a set by name."""
    if (options.vectors is None) == (options.name is None):
        raise ValueError(f"give either VECTORS.npy or --set NAME, one of {', '.join(SETS)}")
    if options.vectors is not None:
        return from_file(options.vectors, options.queries, rows=options.rows)
    if options.queries is not None:
        raise ValueError(f"--queries {options.queries} goes with VECTORS.npy: a set brings its own")
    return SETS[options.name](rows=options.rows)
