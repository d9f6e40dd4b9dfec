"""`wolpertinger completion`: a script that completes commands and options in the shell."""

import argparse
from typing import Any

from wolpertinger.cli.options import with_example
from wolpertinger.imports import needs_extra

SHELLS = ("bash", "zsh", "tcsh")
EXAMPLE = """example:
  eval "$(wolpertinger completion bash)"  # in ~/.bashrc
  wolpertinger completion zsh > ~/.zsh/_wolpertinger  # a folder of your fpath"""


def add_completion(commands: Any, whole: argparse.ArgumentParser) -> None:
    """Add `completion`, of the whole command line."""
    parser = commands.add_parser("completion", help="a script for your shell", **with_example(EXAMPLE))
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=lambda options: _complete(whole, options.shell))


def _complete(parser: argparse.ArgumentParser, shell: str) -> None:
    with needs_extra("cli", "wolpertinger completion"):
        import shtab
    print(shtab.complete(parser, shell))
