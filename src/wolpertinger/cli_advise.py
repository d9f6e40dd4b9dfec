"""`wolpertinger advise-k`: which k to train with, from a trained run."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from wolpertinger.cli_options import at_least, with_example

EXAMPLE = """example:
  wolpertinger advise-k runs/paper
  wolpertinger advise-k runs/paper --checkpoint last --no-measure --json"""


def add_advise(commands: Any) -> None:
    """Add `advise-k`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "advise-k", help="which k to train with, by the paper's Lemma 1 and by measuring", **with_example(EXAMPLE)
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--checkpoint", default="best", choices=("best", "last"), help="(default: %(default)s)")
    parser.add_argument(
        "--states",
        type=at_least(1),
        default=256,
        help="states, visited by the policy, to look at (default: %(default)s)",
    )
    parser.add_argument(
        "--measure", action=argparse.BooleanOptionalAction, default=True,
        help="score the agent at every k too, to check the advice (default: --measure)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.set_defaults(run=_advise)


def _advise(options: argparse.Namespace) -> None:
    from wolpertinger.runs.advise import advise  # only this command needs them
    from wolpertinger.runs.advise_report import plot_advice, sentences, table

    progress, console = Console(stderr=True), Console()
    advice = asdict(
        advise(
            options.folder,
            checkpoint=options.checkpoint,
            states=options.states,
            measure=options.measure,
            say=lambda line: progress.print(line, style="dim", highlight=False),
        )
    )
    plot = plot_advice(options.folder)
    if options.json:
        print(json.dumps(advice))
        return
    console.print(table(advice))
    for line in sentences(advice):
        console.print(line, highlight=False)
    console.print(f"numbers: {options.folder / 'advise.json'}\nplot: {plot}", highlight=False, soft_wrap=True)
