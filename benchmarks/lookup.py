"""Recall against time of nearest-neighbour lookup on five sets: `python -m benchmarks.lookup [NAME...]`.

Each set writes one file under benchmarks/results/lookup/ and a plot beside it; sets that have theirs are skipped,
unless with --again. benchmarks.tables renders docs/lookup.md from those files. Needs the extras [bench] and [data].
"""

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from rich.console import Console

from benchmarks.measure import environment
from wolpertinger.runs.contenders import CONTENDERS
from wolpertinger.runs.lookup import bench
from wolpertinger.runs.lookup_plot import plot_lookup
from wolpertinger.runs.lookup_report import table
from wolpertinger.runs.lookup_sets import SETS

RESULTS = Path(__file__).parent / "results" / "lookup"
LIBRARIES = ("faiss-cpu", "opencv-python-headless", "hnswlib", "usearch")
BUILD_SECONDS = 600.0  # for all that ours tries
BUDGET = 120.0  # seconds for each contender at each k


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lookup", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SETS)} (default: all)")
    parser.add_argument("--again", action="store_true", help="also sets that have their result")
    parser.add_argument("--leave-out", nargs="+", default=[], choices=CONTENDERS, help="libraries to leave out")
    parser.add_argument("--build-seconds", type=float, default=BUILD_SECONDS, help="for ours (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=BUDGET, help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(SETS):
        parser.error(f"{', '.join(sorted(unknown))}: give names of {', '.join(SETS)}")
    for name in options.names or SETS:
        if options.again or not _path(name).exists():
            _run(name, options.budget, options.build_seconds, options.leave_out)


def _run(name: str, budget: float, build_seconds: float, left_out: Sequence[str]) -> None:
    start, commit = time.perf_counter(), _commit()  # before the hours in which it may change
    rivals = {name: entry for name, entry in CONTENDERS.items() if name not in left_out}
    result = bench(SETS[name](), budget=budget, build_seconds=build_seconds, contenders=rivals, say=print)
    absent = {"is_flann": False, "build_seconds": None, "note": "left out of this run"}
    result["contenders"] |= dict.fromkeys(left_out, absent)
    without = " ".join(["", "--leave-out", *left_out]) if left_out else ""
    made_by = {
        "command": f"python -m benchmarks.lookup {name} --budget {budget:g} --build-seconds {build_seconds:g}{without}",
        "commit": commit,
        **environment(),
        "libraries": {library: _version(library) for library in LIBRARIES},
        "seconds": round(time.perf_counter() - start),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    _path(name).write_text(json.dumps({**made_by, **result}, indent=1) + "\n")
    plot_lookup(result, RESULTS / f"{name}.png")
    Console(width=160).print(table(result))
    print(f"written to benchmarks/results/lookup/{name}.json")


def _path(name: str) -> Path:
    return RESULTS / f"{name}.json"


def _commit() -> str | None:
    """Of the code that runs, if it comes from a repository."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        told = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
