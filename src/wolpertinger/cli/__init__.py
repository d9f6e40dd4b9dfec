"""The command line, one file a command: `wolpertinger train recommender`, `wolpertinger evaluate RUN`, ..."""

import argparse
from collections.abc import Sequence
from importlib.metadata import version

import gymnasium as gym

from wolpertinger.agent import CheckpointError
from wolpertinger.cli.evaluate import add_evaluate
from wolpertinger.cli.index import add_index
from wolpertinger.cli.options import explain_errors, with_example
from wolpertinger.cli.train import add_train
from wolpertinger.cli.watch import add_watch

EXAMPLE = """example:
  wolpertinger train recommender --items 835 --out runs/first
  wolpertinger evaluate runs/first
  wolpertinger watch runs/first --out first.gif
  wolpertinger index tune vectors.npy --k 100 --recall 0.99"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; bad input ends in one line on standard error and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="wolpertinger", description="Reinforcement learning with huge action sets.", **with_example(EXAMPLE)
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('wolpertinger')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (add_train, add_evaluate, add_watch, add_index):
        add(commands)
    options = parser.parse_args(arguments)
    prog = f"wolpertinger {options.command}"
    return explain_errors(prog, lambda: options.run(options), CheckpointError, gym.error.Error)
