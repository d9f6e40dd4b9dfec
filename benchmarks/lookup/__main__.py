"""Recall against time of nearest-neighbour lookup, ours and other libraries: `python -m benchmarks.lookup [NAME...]`.

Each of our five sets writes one file under benchmarks/results/lookup/ and a plot beside it; sets that have theirs are
skipped, unless with --again. benchmarks.tables renders docs/lookup.md from those files. Other vectors, and our sets
with other options, are written to runs/lookup. Needs the extras [bench] and [data].
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.lookup.bench import bench
from benchmarks.lookup.contenders import CONTENDERS
from benchmarks.lookup.plot import plot_lookup
from benchmarks.lookup.report import table
from benchmarks.lookup.sets import SETS
from benchmarks.measure import RESULTS as ALL_RESULTS
from benchmarks.measure import commit, environment
from wolpertinger.cli.options import at_least, explain_errors, number, number_or_name, with_example
from wolpertinger.cli.vectors import LookupSet, from_file

EXAMPLE = """example:
  python -m benchmarks.lookup clustered --again
  python -m benchmarks.lookup vectors.npy --queries queries.npy --k 1 0.01 --recall 0.9 0.99
  python -m benchmarks.lookup clustered --rows 100000 --budget 10 --out runs/clustered"""
RESULTS = ALL_RESULTS / "lookup"
TRIALS = Path("runs") / "lookup"
LIBRARIES = ("faiss-cpu", "opencv-python-headless", "hnswlib", "usearch")
BUILD_SECONDS = 600.0  # for all that ours tries
BUDGET = 120.0  # seconds for each contender at each k


def main(arguments: Sequence[str] = ()) -> int:
    """Measure what was asked for; bad input ends in one line on standard error and exit code 2."""
    options = _parser().parse_args(arguments)
    return explain_errors("python -m benchmarks.lookup", lambda: _run_all(options))


def _parser() -> argparse.ArgumentParser:
    description = (__doc__ or "").partition("\n\n")[2]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lookup", description=description, **with_example(EXAMPLE)
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SETS)} (default: all), or a .npy file")
    parser.add_argument(
        "--queries", type=Path, metavar="Q.npy", help="queries for one .npy file (default: its rows plus noise)"
    )
    parser.add_argument("--k", nargs="+", type=number, help="counts, or shares with a point (default: 1 0.01 0.05)")
    parser.add_argument(
        "--recall",
        nargs="+",
        type=number_or_name,
        help='wanted: shares, "slow", "medium", "fast" (default: 0.7 0.9 0.99)',
    )
    parser.add_argument("--rows", type=at_least(2), help="use only so many vectors (default: all)")
    parser.add_argument(
        "--budget",
        type=float,
        default=BUDGET,
        metavar="SECONDS",
        help="for each library at each k, without its build (default: %(default)s)",
    )
    parser.add_argument("--build-seconds", type=float, default=BUILD_SECONDS, help="for ours (default: %(default)s)")
    parser.add_argument("--leave-out", nargs="+", default=[], choices=CONTENDERS, help="libraries to leave out")
    parser.add_argument("--again", action="store_true", help="also sets that have their result")
    parser.add_argument("--out", type=Path, help=f"folder of results and plots (default: see above, or {TRIALS})")
    return parser


def _run_all(options: argparse.Namespace) -> None:
    names = options.names or list(SETS)
    if unknown := [name for name in names if name not in SETS and not name.endswith(".npy")]:
        raise ValueError(f"{', '.join(unknown)}: give .npy files, or sets of {', '.join(SETS)}")
    if options.queries is not None and (len(names) != 1 or names[0] in SETS):
        raise ValueError(f"--queries {options.queries} goes with one .npy file: a set brings its own")
    if not options.budget > 0:
        raise ValueError(f"--budget {options.budget:g}: give a number of seconds above 0")
    for name in names:
        is_ours = name in SETS and not (options.k or options.recall or options.rows)
        folder = options.out or (RESULTS if is_ours else TRIALS)
        if options.again or folder != RESULTS or not (folder / f"{name}.json").exists():
            _run(name, folder, options)


def _run(name: str, folder: Path, options: argparse.Namespace) -> None:
    start, at = time.perf_counter(), commit()  # before the hours in which it may change
    chosen = _load(name, options)
    folder.mkdir(parents=True, exist_ok=True)
    result = bench(
        chosen,
        **{name: value for name, value in (("ks", options.k), ("targets", options.recall)) if value},
        budget=options.budget,
        build_seconds=options.build_seconds,
        contenders={library: entry for library, entry in CONTENDERS.items() if library not in options.leave_out},
        say=print,
    )
    absent = {"is_flann": False, "build_seconds": None, "note": "left out of this run"}
    result["contenders"] |= dict.fromkeys(options.leave_out, absent)
    made_by = {
        "command": command(name, options),
        "commit": at,
        **environment(),
        "libraries": {library: _version(library) for library in LIBRARIES},
        "seconds": round(time.perf_counter() - start),
    }
    path = folder / f"{chosen.name}.json"
    path.write_text(json.dumps({**made_by, **result}, indent=1) + "\n")
    plot = plot_lookup(result, path.with_suffix(".png"))
    Console(width=160).print(table(result))
    print(f"result: {path}\nplot: {plot}")


def _load(name: str, options: argparse.Namespace) -> LookupSet:
    if name in SETS:
        return SETS[name](rows=options.rows)
    return from_file(Path(name), options.queries, rows=options.rows)


def command(name: str, options: argparse.Namespace) -> str:
    """What makes one result again."""
    given: dict[str, Any] = {"queries": options.queries, "k": options.k, "recall": options.recall, "rows": options.rows}
    given |= {"budget": f"{options.budget:g}", "build-seconds": f"{options.build_seconds:g}"}
    given["leave-out"] = options.leave_out
    words = ["python -m benchmarks.lookup", name]
    for option, value in given.items():
        if value:
            words += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
    return " ".join(words)


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
