"""`wolpertinger train ... --ray`: who trains, this process alone or workers on Ray."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from wolpertinger import distributed, runs
from wolpertinger.cli.options import at_least
from wolpertinger.distributed.cluster import import_ray
from wolpertinger.distributed.training import MAX_WORKERS, WHAT, WORKERS


def add_ray_options(parser: Any, default: str | None = None) -> None:
    """Where, and how many."""
    parser.add_argument(
        "--ray", nargs="?", const="", metavar="ADDRESS", default=default,
        help="let workers on a Ray cluster step environments",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=at_least(1, MAX_WORKERS), default=default,
        metavar="N", help=f"on Ray, each of so many as --envs says (default: {WORKERS})",
    )  # fmt: skip


def trainer(options: argparse.Namespace) -> Callable[..., Path]:
    """What trains a config into a folder."""
    return partial(distributed.train, **_on_ray(options)) if _is_asked(options) else runs.train


def resumer(options: argparse.Namespace) -> Callable[..., Path]:
    """What goes on with a run."""
    return partial(distributed.resume, **_on_ray(options)) if _is_asked(options) else runs.resume


def refuse_ray(options: argparse.Namespace) -> None:
    """Learning from a log has no environments to step."""
    if given := [name for name in ("ray", "workers") if getattr(options, name) is not None]:
        raise ValueError(f"--{given[0]}: a log is learned from in one process; leave it out")


def _is_asked(options: argparse.Namespace) -> bool:
    if options.ray is None and options.workers is not None:
        raise ValueError(f"--workers {options.workers}: give --ray too, workers are processes on Ray")
    return options.ray is not None


def _on_ray(options: argparse.Namespace) -> dict[str, Any]:
    import_ray(WHAT)  # before anything is done
    return {"address": options.ray or None, "workers": options.workers or WORKERS}
