"""`wolpertinger evaluate RUN --log FILE`: what a policy is worth by a log, and whether that can be trusted."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wolpertinger.agent import Wolpertinger
from wolpertinger.cli.options import at_least, open_console
from wolpertinger.cli.train_log import add_columns, given_options
from wolpertinger.data import Transitions
from wolpertinger.runs.log_evaluation import LogEvaluation, evaluate_on_log

if TYPE_CHECKING:
    from rich.table import Table


def add_log_evaluation(parser: argparse.ArgumentParser) -> None:
    """Add the options of `evaluate` that go with --log."""
    group = parser.add_argument_group("by a log, without an environment")
    group.add_argument("--log", metavar="FILE", help="a Parquet file of transitions, or a folder of them")
    add_columns(group)
    group.add_argument("--gamma", dest="log_gamma", type=float, help="of the returns (default: the agent's)")
    group.add_argument("--updates", dest="log_updates", type=at_least(1), help="of fitted Q evaluation")


def evaluate_log(options: argparse.Namespace) -> None:
    """Print the table, and on standard output too why not to trust it."""
    path: Path = options.folder / "checkpoints" / f"{options.checkpoint}.zip"
    if not path.exists():
        raise FileNotFoundError(f"{options.folder} has no checkpoint {options.checkpoint!r}: give a run folder")
    given = given_options(options)
    log = Transitions.read(options.log, dict(given.pop("columns", [])))
    found = evaluate_on_log(Wolpertinger.load(path), log, **given)
    if options.json:
        shown: dict[str, Any] = {"estimates": [asdict(each) for each in found.estimates], "warnings": found.warnings}
        print(json.dumps({**shown, "rows": found.rows, "agreement": found.agreement, "gamma": found.gamma}))
        return
    console = open_console()
    console.print(_table(found))
    for warning in found.warnings:
        console.print(f"warning: {warning}", highlight=False, soft_wrap=True)


def _table(found: LogEvaluation) -> "Table":
    from rich.table import Table

    table = Table(title=f"return by {found.rows:,} rows of the log, gamma {found.gamma:g}")
    table.add_column("estimator", no_wrap=True)
    for heading in ("estimate", "95 %", "effective episodes"):
        table.add_column(heading, justify="right")
    for each in found.estimates:
        effective = "" if each.effective is None else f"{each.effective:,.1f} of {each.episodes:,}"
        table.add_row(each.name, f"{each.value:.4g}", f"{each.low:.4g} to {each.high:.4g}", effective)
    return table
