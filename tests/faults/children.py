"""Tries in child processes with limits of memory and time, many in each: a crash ends its own try and no other.

`python -m tests.faults.children MODULE FOLDER SEED NUMBER...` is such a child: it imports MODULE and calls its
`attempt(folder, seed, number)`, which prepares a try and returns what carries it out and says what came of it.
"""

import ctypes
import gc
import importlib
import json
import resource
import select
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.samples import warm_up
from wolpertinger import CheckpointError

MOST_SECONDS, MOST_BYTES = 10.0, 300 << 20  # of a try; the latter beside the size of its files
SAFETY_SECONDS, SAFETY_BYTES = 120.0, 12 << 30  # beyond which a try is ended
GOOD = ("refused", "same", "works")


def run(module: str, folder: Path, seed: int, numbers: list[int]) -> list[dict[str, Any]]:
    """What came of these tries."""
    left, results = list(numbers), []
    while left:
        command = [sys.executable, "-W", "ignore", "-m", "tests.faults.children", module, str(folder), str(seed)]
        child = subprocess.Popen(
            [*command, *map(str, left)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        ended = "ended"
        while left and (line := _read_line(child, SAFETY_SECONDS)) is not None:
            if not line:
                ended = f"exit code {child.wait()}: {child.stderr.read()[-300:] if child.stderr else ''}"
                break
            results.append(json.loads(line))
            left.remove(results[-1]["number"])
            if results[-1]["outcome"] not in GOOD:
                print(results[-1], flush=True)
        else:
            ended = "hangs"
        if left:
            results.append({"number": left.pop(0), "outcome": "crash", "detail": ended, "bytes": 0, "seconds": 0.0})
        child.kill()
        child.communicate()
    return results


def _read_line(child: subprocess.Popen, seconds: float) -> str | None:
    """The next line; empty when the child has ended, None when none comes in time."""
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], seconds)
    return child.stdout.readline() if ready else None


def summarise(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts for the table; what went wrong by name."""
    outcomes = Counter(result["outcome"] for result in results)
    greedy = [result for result in results if result["bytes"] > MOST_BYTES or result["seconds"] > MOST_SECONDS]
    bad = [result for result in results if result["outcome"] not in GOOD]
    return {
        "tries": len(results),
        **{name: outcomes[name] for name in ("refused", "same", "works", "crash", "foreign", "silent")},
        "most_MB": round(max((result["bytes"] for result in results), default=0) / 2**20),
        "most_ms": round(1_000 * max((result["seconds"] for result in results), default=0)),
        "failures": [f"{result['number']}: {result['outcome']}, {result['detail']}" for result in [*bad, *greedy]],
    }


def main(module: str, folder: str, seed: str, numbers: list[str]) -> None:
    attempt = importlib.import_module(module).attempt
    resource.setrlimit(resource.RLIMIT_AS, (SAFETY_BYTES, SAFETY_BYTES))
    warnings.simplefilter("ignore")
    warm_up(Path(folder))
    gc.freeze()  # or each collection goes through all of torch
    for number in map(int, numbers):
        work = attempt(Path(folder), int(seed), number)
        print(json.dumps({"number": number, **_measure(work)}), flush=True)


def _measure(work: Any) -> dict[str, Any]:
    """Carry out a try; memory is what it took at its peak beyond what was there and the size of its files."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before, start = _memory("VmRSS"), time.process_time()  # others may work on the same machine
    try:
        outcome, detail = work()
    except CheckpointError as error:
        outcome, detail = "refused", str(error)[:300]
    except Exception as error:
        outcome, detail = "foreign", f"{work.name}: {type(error).__name__}: {error}"[:300]
    seconds, peak = time.process_time() - start, _memory("VmHWM")
    if outcome == "works":
        outcome, detail = _use(work)
    return {
        "outcome": outcome,
        "detail": detail,
        "bytes": max(0, peak - before - work.size),
        "seconds": round(seconds, 3),
        "name": work.name,
    }


def _use(work: Any) -> tuple[str, str]:
    """What was read may still turn out wrong when it is put in place, and then is refused."""
    try:
        return work.use()
    except CheckpointError as error:
        return "refused", str(error)[:300]
    except Exception as error:
        return "foreign", f"{work.name}, in use: {type(error).__name__}: {error}"[:300]


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise KeyError(name)


if __name__ == "__main__":
    main(*sys.argv[1:4], sys.argv[4:])
