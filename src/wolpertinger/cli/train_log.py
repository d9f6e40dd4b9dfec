"""`wolpertinger train --log FILE`: a log into a run folder, without an environment."""

import argparse
from pathlib import Path
from typing import Any

from wolpertinger.cli.options import at_least, file_path
from wolpertinger.runs.log_training import LogRunConfig, train_from_log
from wolpertinger.settings import MAX_SEED

PREFIX = "log_"  # of these options among the others


def add_log_options(parser: argparse.ArgumentParser, change: Any, device: Any) -> None:
    """Add the options of `train` that go with --log."""
    group = parser.add_argument_group("learning from a log, instead of a TASK")
    group.add_argument("--log", metavar="FILE", help="a Parquet file of transitions, or a folder of them")
    add_reading(group)
    group.add_argument("--updates", dest="log_updates", type=at_least(1), help="batches to learn from")
    group.add_argument(
        "--unlogged", dest="log_unlogged", action="store_true", default=None,
        help="let the agent pick actions that the log never took nor allowed",
    )  # fmt: skip
    group.add_argument("--set", dest="log_changes", action="append", metavar="NAME=VALUE", type=change,
                       help="any other setting of the agent, in JSON")  # fmt: skip
    group.add_argument("--seed", dest="log_seed", type=at_least(0, MAX_SEED), help="of networks (default: 0)")
    group.add_argument("--out", dest="log_out", type=file_path, help="run folder (default: runs/log-SEED)")
    group.add_argument("--overwrite", dest="log_overwrite", action="store_true", default=None,
                       help="replace a run that is in the folder already")  # fmt: skip
    group.add_argument("--device", dest="log_device", type=device, help='"auto" (default), "cpu" or "cuda"')


def add_reading(parser: Any) -> None:
    """Add what is needed to read a log."""
    parser.add_argument(
        "--actions", dest="log_actions", metavar="FILE", type=_count_or_path,
        help="a .npy file with a vector for each action, or how many there are (default: by the log's largest id)",
    )  # fmt: skip
    add_columns(parser)


def add_columns(parser: Any) -> None:
    """Add names of columns."""
    parser.add_argument(
        "--column", dest="log_columns", action="append", type=_column, metavar="FIELD=NAME",
        help="the name of a column, as reward=clicks",
    )  # fmt: skip


def given_options(options: argparse.Namespace) -> dict[str, Any]:
    """What was given of them, by name."""
    return {name.removeprefix(PREFIX): value for name, value in vars(options).items()
            if name.startswith(PREFIX) and value is not None}  # fmt: skip


def train_log(options: argparse.Namespace, nested: Any) -> Path:
    """Train by the command's options; returns the run folder."""
    given = given_options(options)
    folder = given.pop("out", None) or Path("runs") / f"log-{given.get('seed', 0)}"
    how = {name: given.pop(name) for name in ("overwrite", "device") if name in given}
    given["columns"] = dict(given.get("columns", []))
    given["agent"] = nested(given.pop("changes", []))
    return train_from_log(LogRunConfig(log=options.log, **given), folder, **how)


def _count_or_path(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _column(text: str) -> tuple[str, str]:
    name, equals, column = text.partition("=")
    if not (name and equals and column):
        raise argparse.ArgumentTypeError(f"{text!r} is not FIELD=NAME")
    return name, column
