"""What the options of several commands have in common."""

import argparse
from collections.abc import Callable
from typing import Any


def with_example(example: str) -> dict[str, Any]:
    """Keywords for a parser whose help ends with an example."""
    return {"epilog": example, "formatter_class": argparse.RawDescriptionHelpFormatter}


def at_least(least: int) -> Callable[[str], int]:
    """The type of an option that counts from `least` up."""

    def integer(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is too few: give at least {least}")
        return int(text)

    return integer


def recall(text: str) -> float | str:
    """A share, or a name of one."""
    try:
        return float(text)
    except ValueError:
        return text


def number(text: str) -> int | float:
    """A count, or with a point a share."""
    return float(text) if "." in text or "e" in text.lower() else int(text)
