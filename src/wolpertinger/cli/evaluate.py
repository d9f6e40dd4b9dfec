"""`wolpertinger evaluate`: a run's agent beside its baselines."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from wolpertinger.actions.base import MAX_CANDIDATES
from wolpertinger.cli.evaluate_log import add_log_evaluation, evaluate_log
from wolpertinger.cli.options import add_json, add_run, at_least, open_console, with_example
from wolpertinger.cli.train_log import given_options
from wolpertinger.runs import Evaluation, evaluate
from wolpertinger.runs.config import MAX_ENVS
from wolpertinger.runs.scores import share_of

if TYPE_CHECKING:
    from rich.table import Table

EXAMPLE = """example:
  wolpertinger evaluate runs/first --episodes 5000
  wolpertinger evaluate runs/first --top 10
  wolpertinger evaluate runs/logged --log log.parquet"""
DATA_CAVEAT = (
    "Data: the Complete Journey. Its R manual describes the lines as store receipts; "
    "the readme of the Python package has since 2025 called them simulated."
)


def add_evaluate(commands: Any) -> None:
    """Add `evaluate`."""
    parser = commands.add_parser("evaluate", help="score a run's agent", **with_example(EXAMPLE))
    add_run(parser)
    parser.add_argument(
        "--episodes", type=at_least(1, MAX_ENVS), help="episodes to sample (default: 2,000 users, 100 cart-poles, ...)"
    )
    parser.add_argument(
        "--top", type=at_least(1, MAX_CANDIDATES), help="show so many actions, best first, in some states"
    )
    add_json(parser)
    add_log_evaluation(parser)
    parser.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> None:
    if options.log is not None:
        evaluate_log(options)
        return
    if given := given_options(options):
        raise ValueError(f"--{next(iter(given)).rstrip('s')}: it goes with --log FILE")
    found = evaluate(options.folder, checkpoint=options.checkpoint, episodes=options.episodes, top=options.top or 0)
    if options.json:
        score = {"value": found.score.value, "share": found.score.share, "distinct": found.score.distinct}
        sampled, baselines = vars(found.sampled), found.baselines
        shown = {"score": score, "exact": found.exact, "sampled": sampled, "baselines": baselines}
        print(json.dumps({**shown, **({"top": [vars(row) for row in found.ranked]} if options.top else {})}))
        return
    console = open_console()
    console.print(_score_table(found))
    if found.recommendations:
        console.print(_recommendation_table(found))
    if found.ranked:
        console.print(_ranked_table(found))
    if found.config.env.get("data") == "complete-journey":
        console.print(DATA_CAVEAT)
    if (plot := options.folder / "curve.png").exists():  # not if the run was interrupted
        console.print(f"plot: {plot}", highlight=False)


def _score_table(found: Evaluation) -> "Table":
    from rich.table import Table

    score, sampled = found.score, found.sampled
    options = ", ".join(f"{name} {value}" for name, value in found.config.env.items())
    k = "" if found.config.k is None else f"; k = {found.config.k}"
    table = Table(title=f"{found.config.task}: {options}{k}", caption=_speed(found))
    table.add_column("policy", no_wrap=True)
    for heading in ("exact return" if found.exact else "return", "share", "episodes (95 %)", "distinct actions"):
        table.add_column(heading, justify="right")
    interval = f"{sampled.mean:.3f}" if sampled.half_width is None else f"{sampled.mean:.3f} ± {sampled.half_width:.3f}"
    table.add_row(f"agent ({found.checkpoint})", *_cells(score.value, score.best), interval, str(score.distinct))
    if found.candidates is not None and found.config.k != 1:
        table.add_row("best of its candidates", *_cells(found.candidates, score.best))
    for name, value in reversed(found.baselines.items()):
        table.add_row(name, *_cells(value, score.best))
    return table


def _cells(value: float, best: float | None) -> tuple[str, str]:
    share = share_of(value, best)
    return f"{value:.3f}", "" if share is None else f"{share:.1%}"


def _speed(found: Evaluation) -> str:
    training = found.training_steps_per_second
    trained = f"trained at {training:,.0f} steps/s, " if training else ""
    return f"{trained}acted at {found.sampled.steps_per_second:,.0f} steps/s"


def _recommendation_table(found: Evaluation) -> "Table":
    from rich.table import Table

    table = Table(title="some recommendations")
    for heading in ("to a user at", "recommends"):
        table.add_column(heading)
    for heading in ("chance", "reward"):
        table.add_column(heading, justify="right")
    for row in found.recommendations:
        table.add_row(row.at, row.item, f"{row.chance:.2f}", f"{row.reward:.2f}")
    return table


def _ranked_table(found: Evaluation) -> "Table":
    from rich.table import Table

    table = Table(title="best actions by the policy")
    table.add_column("state")
    table.add_column("place", justify="right")
    table.add_column("action")
    for heading in ("value", "distance"):
        table.add_column(heading, justify="right")
    table.add_column("found by")
    for row in found.ranked:
        value, distance = f"{row.value:.3f}", f"{row.distance:.3f}"
        table.add_row(row.state, str(row.place), row.action, value, distance, row.source)
    return table
