"""`wolpertinger watch`: a run's agent as a film, or in a window."""

import argparse
from typing import Any

from wolpertinger.cli.options import add_json, add_run, at_least, file_path, say, with_example
from wolpertinger.runs import show, watch
from wolpertinger.runs.watch import MAX_FRAMES
from wolpertinger.settings import MAX_SEED

EXAMPLE = """example:
  wolpertinger watch runs/first --episodes 3
  wolpertinger watch runs/first --out first.gif --every 2 --fps 10
  wolpertinger watch runs/first --human"""


def add_watch(commands: Any) -> None:
    """Add `watch`."""
    parser = commands.add_parser("watch", help="film a run's agent at work", **with_example(EXAMPLE))
    add_run(parser)
    parser.add_argument("--out", type=file_path, help="the film, .mp4 or .gif (default: RUN/watch.mp4)")
    parser.add_argument("--episodes", type=at_least(1), default=1, help="(default: %(default)s)")
    parser.add_argument(
        "--seed", type=at_least(0, MAX_SEED), default=0, help="of the first episode (default: %(default)s)"
    )
    parser.add_argument("--fps", type=float, help="pictures a second (default: the environment's own)")
    parser.add_argument(
        "--every", type=at_least(1, MAX_FRAMES), default=1, help="keep one picture of so many (default: all)"
    )
    parser.add_argument("--human", action="store_true", help="play in a window, and write nothing")
    add_json(parser)
    parser.set_defaults(run=_watch)


def _watch(options: argparse.Namespace) -> None:
    choice = {name: getattr(options, name) for name in ("checkpoint", "episodes", "seed", "fps", "every")}
    if options.human and options.out is not None:
        raise ValueError(f"--human writes nothing: leave out --out {options.out}")
    film = show(options.folder, **choice) if options.human else watch(options.folder, options.out, **choice)
    returns = ", ".join(f"{score:.2f}" for score in film.returns)
    cut = " (cut: the last episode goes on)" if film.cut else ""
    where = f"film: {film.path}, " if film.path else ""
    found = {"film": film.path, "pictures": film.frames, "returns": film.returns, "cut": film.cut}
    say(options, found, f"{where}{film.frames} pictures, return {returns}{cut}")
