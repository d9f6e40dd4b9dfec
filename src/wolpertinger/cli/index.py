"""`wolpertinger index tune`: the fastest index that keeps a recall."""

import argparse
import json
from typing import Any

from wolpertinger.cli import tuning
from wolpertinger.cli.options import at_least, file_path, number, number_or_name, open_console, with_example
from wolpertinger.cli.vectors import from_file
from wolpertinger.index.tune import BATCH, BUILD_SECONDS
from wolpertinger.threads import MAX_THREADS, set_threads

TUNE_EXAMPLE = """example:
  wolpertinger index tune vectors.npy --k 100 --recall 0.99
  wolpertinger index tune vectors.npy --k 0.01 --recall medium --out actions.zip"""

RECALL_HELP = 'a share, or the paper\'s "slow" (0.99), "medium" (0.9), "fast" (0.7)'


def add_index(commands: Any) -> None:
    """Add `index` and its commands."""
    parser = commands.add_parser("index", help="nearest-neighbour lookup", **with_example(TUNE_EXAMPLE))
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    _add_tune(
        subcommands.add_parser("tune", help="the fastest index that keeps a recall", **with_example(TUNE_EXAMPLE))
    )


def _add_tune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("vectors", type=file_path, metavar="VECTORS.npy", help="the actions' vectors (n, dim)")
    parser.add_argument("--k", type=number, required=True, help="neighbours: a count, or a share with a point")
    parser.add_argument(
        "--recall",
        type=number_or_name,
        default=0.99,
        help=f"to keep: {RECALL_HELP} (default: %(default)s)",
    )
    parser.add_argument(
        "--queries",
        type=file_path,
        metavar="Q.npy",
        help="proto-actions to tune on (default: rows of VECTORS plus noise)",
    )
    parser.add_argument(
        "--batch", type=at_least(1, 2**20), default=BATCH, help="queries in a lookup (default: %(default)s)"
    )
    parser.add_argument(
        "--build-seconds", type=float, default=BUILD_SECONDS, metavar="SECONDS",
        help="the most to spend on building (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--recipe", help="tune this FAISS recipe instead of trying those on our own list")
    parser.add_argument("--threads", type=at_least(1, MAX_THREADS), help="for the lookups (default: as torch decides)")
    parser.add_argument("--out", type=file_path, help="write the table with its index; ActionTable.load reads it")
    parser.add_argument("--json", action="store_true", help="print all that was tried as JSON")
    parser.set_defaults(run=_tune)


def _tune(options: argparse.Namespace) -> None:
    if options.threads is not None:
        set_threads(options.threads)
    chosen = from_file(options.vectors, options.queries)
    found = tuning.tune(
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
        print(json.dumps(tuning.as_json(found), indent=1))
        return
    console = open_console()
    console.print(tuning.table(found))
    console.print(tuning.summary(found), highlight=False)
    if options.out is not None:
        console.print(f"table with its index: {options.out}", highlight=False, soft_wrap=True)
