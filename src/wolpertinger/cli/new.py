"""`wolpertinger new`: a project of one file, with an environment, its actions and a training script."""

import argparse
import keyword
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from wolpertinger import atomic
from wolpertinger.cli.options import add_json, say, with_example

EXAMPLE = """example:
  wolpertinger new my-problem && python my_problem.py
  wolpertinger train environment --env-id my_problem:MyProblem-v0"""


def add_new(commands: Any) -> None:
    """Add `new`."""
    parser = commands.add_parser("new", help="write a project to begin with, in one file", **with_example(EXAMPLE))
    parser.add_argument("name", metavar="NAME", type=_name, help="of the problem, such as my-problem")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file to write (default: NAME.py)")
    add_json(parser)
    parser.set_defaults(run=_new)


def _name(text: str) -> str:
    module = re.sub(r"[-\s]+", "_", text).lower()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", module) or keyword.iskeyword(module):
        raise argparse.ArgumentTypeError(f"{text!r} is no name: give letters, digits and dashes, as in my-problem")
    return module


def _new(options: argparse.Namespace) -> None:
    name, path = options.name, options.out or Path(f"{options.name}.py")
    title = "".join(part.capitalize() for part in name.split("_"))
    if path.exists():
        raise FileExistsError(f"{path} exists already: give another name, or --out FILE")
    text = files("wolpertinger.cli").joinpath("project.txt").read_text().replace("PROBLEM", title)
    atomic.write_bytes(path, text.replace("MODULE", path.stem).encode())
    say(options, {"file": path, "environment": f"{path.stem}:{title}-v0"}, f"written: {path}\ntry: python {path}")
