"""Training steps, acting and re-ranking against the clock: `python -m benchmarks.speed [NAME...]`.

Each part writes one file under benchmarks/results/speed/; parts that have theirs are skipped, unless with --again. All
parts take about 25 minutes on two quiet cores. `--quick` tries them out, and writes to runs/speed instead.
benchmarks.tables renders docs/performance.md from those files, benchmarks.speed.verdict says which targets hold.
"""

import argparse
import dataclasses
import json
import os
import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS as ALL_RESULTS
from benchmarks.measure import commit, environment, say
from benchmarks.speed import acting, floor, growth, plot, profile, rerank, screening, search, step
from benchmarks.speed.effort import QUICK, Effort
from wolpertinger.threads import count_threads, set_threads

RESULTS = ALL_RESULTS / "speed"
TRIALS = Path("runs") / "speed"
MEMORY_SHARE = 0.8  # of the machine's: what needs more is to fail by itself, and to leave the machine as it is

PARTS: dict[str, Callable[[Effort], dict[str, Any]]] = {
    "rerank": rerank.measure,
    "screening": screening.measure,
    "floor": floor.measure,
    "acting": acting.measure,
    **{name: partial(step.measure, name) for name in step.STEP_TABLES},
    "search": search.measure,
    "growth": growth.measure,
    "profile": profile.measure,
}


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--again", action="store_true", help="also parts that have their result")
    parser.add_argument("--quick", action="store_true", help=f"a trial: few rounds, no slow cells, into {TRIALS}")
    parser.add_argument("--rounds", type=int, help=f"the most of a row (default: {Effort.rounds})")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of networks and lookups (default: all)")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: give names of {', '.join(PARTS)}")
    effort = QUICK if options.quick else Effort()
    if options.rounds is not None:
        effort = dataclasses.replace(effort, rounds=options.rounds)
    set_threads(options.threads)
    _limit_memory()
    folder = TRIALS if options.quick else RESULTS
    for name in options.names or PARTS:
        if options.again or not (folder / f"{name}.json").exists():
            _run(name, effort, folder)
    plot.main([str(folder)])


def _limit_memory() -> None:
    memory = int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory if most == resource.RLIM_INFINITY else min(memory, most), most))


def _run(name: str, effort: Effort, folder: Path) -> None:
    say(f"== {name}")
    start, at = time.perf_counter(), commit()
    result = PARTS[name](effort)
    made_by = {
        "command": f"python -m benchmarks.speed {name} --rounds {effort.rounds} --threads {count_threads()}",
        "commit": at,
        **environment(),
        "threads": count_threads(),
        "seconds": round(time.perf_counter() - start),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**made_by, **result}, indent=1) + "\n")
    say(f"{path}: {made_by['seconds']} s")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
