"""What several commands have in common."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wolpertinger.agent.faults import BadTransitionError
from wolpertinger.runs.signals import Interrupted
from wolpertinger.settings import LARGEST_WHOLE, show

if TYPE_CHECKING:
    from rich.console import Console


def explain_errors(prog: str, run: Callable[[], None], *errors: type[Exception]) -> int:
    """Run a command; bad input, and these errors, end in one line on standard error and exit code 2.

    An error amid a run, which has saved itself and noted so, may be of the user's own environment: it keeps its
    traceback.
    """
    expected: tuple[type[Exception], ...] = (ValueError, TypeError, OSError, ImportError, MemoryError, *errors)
    try:
        run()
        sys.stdout.flush()
    except Interrupted as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return error.code
    except ClosedOutputError:
        return _leave_output()
    except BrokenPipeError as error:
        if getattr(error, "__notes__", []):  # amid a run: a pipe of the user's own
            raise
        return _leave_output()
    except expected as error:
        notes = getattr(error, "__notes__", [])
        if notes and not isinstance(error, BadTransitionError):
            raise
        print("\n".join([f"{prog}: {error}", *notes]), file=sys.stderr)
        return 2
    return 0


class ClosedOutputError(Exception):
    """Whoever read the output, as `head` does, has seen enough."""


def _leave_output() -> int:
    """Nothing more is written, also not when Python ends and flushes what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def open_console() -> "Console":
    """What tables are printed on."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:  # rich itself would exit with code 1
            raise ClosedOutputError

    return Output()


def with_example(example: str, *, short: bool = False) -> dict[str, Any]:
    """Keywords for a parser whose help ends with an example."""
    return {"epilog": example, "formatter_class": _OneScreen, "usage": "%(prog)s [options]" if short else None}


class _OneScreen(argparse.RawDescriptionHelpFormatter):
    """At most 80 columns, and few lines that hold an option's name only."""

    def __init__(self, prog: str) -> None:
        width = min(80, shutil.get_terminal_size().columns)
        super().__init__(prog, max_help_position=26, width=width)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Let programs read what the command says."""
    parser.add_argument("--json", action="store_true", help="print what came out as JSON")


def say(options: argparse.Namespace, found: dict[str, Any], text: str) -> None:
    """Print a text, or what it says as JSON."""
    print(json.dumps(found, default=str) if options.json else text)


def file_path(text: str) -> Path:
    """The path of a file or folder, there or not; one that can be none, for its length say, is refused."""
    try:
        os.stat(text)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise argparse.ArgumentTypeError(f"{show(text)} is of no use: {reason}") from error
    return Path(text)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Which run, and which of its checkpoints."""
    parser.add_argument("folder", metavar="RUN", type=file_path, help="a run folder that `wolpertinger train` made")
    parser.add_argument(
        "--checkpoint", default="best", choices=("best", "last"), help='"best" (default, by evaluation) or "last"'
    )


def at_least(least: int, most: int = LARGEST_WHOLE) -> Callable[[str], int]:
    """The type of an option that counts from `least` up, to `most`."""

    def integer(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is too few: give at least {least}")
        if int(text) > most:
            raise argparse.ArgumentTypeError(f"{text} is too many: give {most:,} at most")
        return int(text)

    return integer


def number_or_name(text: str) -> float | str:
    """A number, as a share of neighbours, or a name of one."""
    try:
        return float(text)
    except ValueError:
        return text


def number(text: str) -> int | float:
    """A count, or with a point a share."""
    return float(text) if "." in text or "e" in text.lower() else int(text)
