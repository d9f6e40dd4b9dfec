"""`wolpertinger log describe`: what is in a log."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wolpertinger.cli.options import add_json, file_path, open_console, with_example
from wolpertinger.cli.train_log import add_reading
from wolpertinger.data import Transitions
from wolpertinger.data.describing import MOST_COMMON, Description, describe
from wolpertinger.runs.log_training import make_actions

if TYPE_CHECKING:
    from rich.table import Table

EXAMPLE = """example:
  wolpertinger log describe log.parquet --actions vectors.npy
  wolpertinger log describe logs/ --column reward=clicks --plot log.png"""


def add_log(commands: Any) -> None:
    """Add `log`."""
    parser = commands.add_parser("log", help="logs to learn from", **with_example(EXAMPLE))
    actions = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
    describing = actions.add_parser("describe", help="check a log and print what is in it", **with_example(EXAMPLE))
    describing.add_argument("log", metavar="FILE", help="a Parquet file of transitions, or a folder of them")
    add_reading(describing)
    describing.add_argument("--plot", type=file_path, metavar="FILE", help="draw returns, lengths, actions into a PNG")
    add_json(describing)
    describing.set_defaults(run=_describe)


def _describe(options: argparse.Namespace) -> None:
    log = Transitions.read(options.log, dict(options.log_columns or []))
    actions = make_actions(options.log_actions, log) if log["action"].ndim == 1 or options.log_actions else None
    if actions is not None:
        log.check(actions)
    found = describe(log)
    if options.json:
        if options.plot is not None:
            plot(found, options.plot)
        print(json.dumps(_as_json(found)))
        return
    console = open_console()
    console.print(_table(found, options.log, None if actions is None else actions.n))
    console.print(_actions_table(found))
    if options.plot is not None:
        plot(found, options.plot)
        console.print(f"plot: {options.plot}", highlight=False)


def _as_json(found: Description) -> dict[str, Any]:
    plain = {"rows": found.rows, "episodes": found.episodes, "unusable": found.unusable, "rewarded": found.rewarded}
    common = zip(found.actions[:MOST_COMMON].tolist(), found.counts.tolist(), strict=False)
    return {
        **plain,
        "lengths": _spread(found.lengths),
        "returns": _spread(found.returns),
        "actions": len(found.actions),
        "most_common": [{"action": action, "rows": count} for action, count in common],
        "propensities": found.propensities,
        "allowed": found.allowed,
    }


def _spread(values: Any) -> dict[str, float]:
    return {name: float(getattr(values, name)()) for name in ("mean", "std", "min", "max")}


def _table(found: Description, name: str, n: int | None) -> "Table":
    from rich.table import Table

    table = Table(title=name, show_header=False)
    taken = f"{len(found.actions):,}" + ("" if n is None else f" of {n:,} ({len(found.actions) / n:.1%})")
    returns = f"{found.returns.mean():.4g} ± {found.returns.std():.4g}, {found.returns.min():.4g} to "
    rows = {
        "rows": f"{found.rows:,}",
        "that say nothing of what came next": f"{found.unusable:,}",
        "episodes": f"{found.episodes:,}",
        "their length": f"{found.lengths.mean():.4g}, {found.lengths.min():,} to {found.lengths.max():,}",
        "their return": returns + f"{found.returns.max():.4g}",
        "rows with a reward": f"{found.rewarded:.1%}",
        "actions taken": taken,
        f"share of the {MOST_COMMON} most common": f"{found.common_share:.1%}",
        "propensities": "none" if found.propensities is None else "{:.3g} to {:.3g}".format(*found.propensities),
        "allowed actions": "not said" if found.allowed is None else f"{found.allowed:.4g} a row",
    }
    for row in rows.items():
        table.add_row(*row)
    return table


def _actions_table(found: Description) -> "Table":
    from rich.table import Table

    table = Table(title="the most common actions")
    for heading in ("action", "rows", "share"):
        table.add_column(heading, justify="right")
    for action, count in zip(found.actions[:MOST_COMMON].tolist(), found.counts.tolist(), strict=False):
        table.add_row(str(action), f"{count:,}", f"{count / found.rows:.2%}")
    return table


def plot(found: Description, path: Path) -> None:
    """Returns and lengths as histograms, and how often each action was taken, the most common first."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    left.hist(found.returns, bins=40)
    left.set(xlabel="return of an episode", ylabel="episodes")
    middle.hist(found.lengths, bins=40)
    middle.set(xlabel="length of an episode")
    right.loglog(range(1, len(found.counts) + 1), found.counts)
    right.set(xlabel="action, the most common first", ylabel="rows")
    figure.savefig(path, dpi=120)
