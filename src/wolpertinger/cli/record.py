"""`wolpertinger record`: what a run's agent does, as a log."""

import argparse
from typing import Any

from wolpertinger.cli.options import add_json, add_run, at_least, file_path, say, with_example
from wolpertinger.runs.recording import record
from wolpertinger.settings import MAX_SEED

EXAMPLE = """example:
  wolpertinger record runs/first --out log.parquet --rows 100000 --epsilon 0.3
  wolpertinger train --log log.parquet --actions vectors.npy"""


def add_record(commands: Any) -> None:
    """Add `record`."""
    parser = commands.add_parser("record", help="write what a run's agent does as a log", **with_example(EXAMPLE))
    add_run(parser)
    parser.add_argument("--out", type=file_path, required=True, metavar="FILE", help="a Parquet file")
    parser.add_argument("--rows", type=at_least(1), default=10_000, help="at least so many (default: %(default)s)")
    parser.add_argument(
        "--epsilon", type=float, default=0.1, help="chance of an action drawn uniformly (default: %(default)s)"
    )
    parser.add_argument("--seed", type=at_least(0, MAX_SEED), default=0, help="(default: %(default)s)")
    add_json(parser)
    parser.set_defaults(run=_record)


def _record(options: argparse.Namespace) -> None:
    choice = {name: getattr(options, name) for name in ("checkpoint", "rows", "epsilon", "seed")}
    path = record(options.folder, options.out, **choice)
    say(options, {"log": path}, f"log: {path}")
