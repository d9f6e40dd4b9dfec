"""The command line, one file a command: `wolpertinger train recommender`, `wolpertinger evaluate RUN`, ..."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec

import gymnasium as gym

from wolpertinger.agent import CheckpointError
from wolpertinger.cli.completion import add_completion
from wolpertinger.cli.evaluate import add_evaluate
from wolpertinger.cli.export import add_export
from wolpertinger.cli.index import add_index
from wolpertinger.cli.log import add_log
from wolpertinger.cli.new import add_new
from wolpertinger.cli.options import explain_errors, with_example
from wolpertinger.cli.record import add_record
from wolpertinger.cli.serve import add_serve
from wolpertinger.cli.train import add_train
from wolpertinger.cli.watch import add_watch
from wolpertinger.imports import needs_extra

PACKAGES = ("rich", "matplotlib", "tensorboard", "imageio")  # of the extra [cli]

EXAMPLE = """example:
  wolpertinger train recommender --items 835 --out runs/first
  wolpertinger evaluate runs/first
  wolpertinger watch runs/first --out first.gif
  wolpertinger index tune vectors.npy --k 100 --recall 0.99
  wolpertinger serve runs/first
  wolpertinger export runs/first --onnx exported"""


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="wolpertinger", description="Reinforcement learning with huge action sets.", **with_example(EXAMPLE)
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('wolpertinger')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    adders = (add_new, add_train, add_evaluate, add_watch, add_index, add_log, add_record, add_serve, add_export)
    for add in adders:
        add(commands)
    add_completion(commands, parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; bad input ends in one line on standard error and exit code 2."""
    parser = make_parser()
    given = sys.argv[1:] if arguments is None else arguments
    if any(text == "--" or text.endswith("=--") for text in given):
        parser.error(
            "-- is no value, and ends no options here: leave it out"
        )  # argparse would make an empty list of it
    options = parser.parse_args(given)

    def run() -> None:
        _require_packages()
        options.run(options)

    return explain_errors(f"wolpertinger {options.command}", run, CheckpointError, gym.error.Error)


def _require_packages() -> None:
    """Say before a run of hours, not at its end, that what writes its log or its plot is missing."""
    with needs_extra("cli", "the command line"):
        for package in PACKAGES:
            if find_spec(package) is None:
                raise ModuleNotFoundError(name=package)
