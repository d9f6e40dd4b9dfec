"""Part of benchmarks.speed: time and memory of a training step against k, up to all of Puddle World's 2^20 plans.

Every k runs in a process of its own, whose peak memory is its own: `python -m benchmarks.speed.growth K`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import say
from benchmarks.speed.agents import BATCH, Trainer, make_agent, make_env, matrix_product, networks_of, preset
from benchmarks.speed.effort import Effort
from benchmarks.speed.step import NOMINAL, SLOW
from wolpertinger.threads import count_threads, set_threads

TASK = "puddle-world"
KS = tuple(2**power for power in range(21))
CALLS = 5  # timed, of at least one step each
KILOBYTE = 1024  # Linux gives the peak in these


def measure(effort: Effort) -> dict[str, Any]:
    """One row for each k that is not too slow; the first that fails, for lack of memory say, is the last."""
    rows: list[dict[str, Any]] = []
    failed: dict[str, int] = {}
    for k in KS if effort.most_seconds == float("inf") else KS[::4]:
        if rows and rows[-1]["flops"] / rows[-1]["k"] * k / NOMINAL > effort.most_seconds:
            break
        done = run_apart(k, effort)
        if done.returncode:
            say(f"growth, k = {k:,}: ended with exit code {done.returncode}")
            failed[str(k)] = done.returncode
            break
        rows.append(row := json.loads(done.stdout.splitlines()[-1]))
        row["megabytes_above_first"] = (row["peak_bytes"] - rows[0]["peak_bytes"]) / 1e6
        told = f"{row['seconds']:.4g} s a step, {row['megabytes_above_first']:.0f} MB above k = 1"
        say(f"growth, k = {k:,}: {told}, {row['peak_bytes'] / 1e6:.0f} MB in all")
    return {"task": TASK, "batch": BATCH, "net_arch": [400, 300], "rows": rows, "failed": failed}


def run_apart(k: int, effort: Effort) -> subprocess.CompletedProcess[str]:
    """The row of one k, printed by a new process."""
    arguments = [str(k), "--threads", str(count_threads()), "--seconds", str(effort.round_seconds)]
    command = [sys.executable, "-m", "benchmarks.speed.growth", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)


def measure_one(k: int, seconds: float) -> dict[str, Any]:
    """A step at this k and what it took; k = 1 is run before it in any case, so that all have done the same."""
    trainer = Trainer(agent := make_agent(make_env(TASK), **preset(TASK, "paper")))
    trainer.warm_up(3, seconds)
    products = product_seconds()
    agent.k = k
    flops = networks_of(agent).step(BATCH, k)
    is_slow = flops / NOMINAL > SLOW
    trainer.steps = 1
    if not is_slow:
        trainer.warm_up(2, seconds)
    times = []
    for _ in range(1 if is_slow else CALLS):
        start = time.perf_counter()
        trainer()
        times.append((time.perf_counter() - start) / trainer.steps)
    products += product_seconds()
    return {
        "k": k,
        "seconds": statistics.median(times),
        "parts": trainer.median_parts(),
        "calls": len(times),
        "flops": flops,
        "flops_per_second": 1 / statistics.median(products),
        "peak_bytes": peak_bytes(),
    }


def peak_bytes() -> int:
    """The most memory this process has had; `getrusage` would tell its parent's if that had more."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * KILOBYTE


def product_seconds() -> list[float]:
    """Seconds an operation, of a few products."""
    work, times = matrix_product(), []
    for _ in range(4):
        start = time.perf_counter()
        operations = work()
        times.append((time.perf_counter() - start) / operations)
    return times[1:]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.growth", description=__doc__)
    parser.add_argument("k", type=int)
    parser.add_argument("--threads", type=int, default=count_threads())
    parser.add_argument("--seconds", type=float, default=Effort.round_seconds)
    options = parser.parse_args(arguments)
    set_threads(options.threads)
    print(json.dumps(measure_one(options.k, options.seconds)))


if __name__ == "__main__":
    main(sys.argv[1:])
