"""What every benchmark needs: interleaved rounds, and a result file that says how it was made."""

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from wolpertinger import Wolpertinger

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("numpy", "gymnasium", "stable-baselines3", "torch")


def time_rounds(contenders: Mapping[str, Callable[[], int]], rounds: int) -> dict[str, list[float]]:
    """Seconds per unit of work of each contender, once per round, in turn: what else the machine does hits all alike.

    A contender does some work and returns how many units it was.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            units = work()
            seconds[name].append((time.perf_counter() - start) / units)
    return seconds


def summarise(samples: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(samples, n=4)
    return {"median": median, "lower_quartile": low, "upper_quartile": high}


def spread(samples: list[float]) -> dict[str, Any]:
    """Median, least and most, and how many there were."""
    return {"median": statistics.median(samples), "least": min(samples), "most": max(samples), "samples": len(samples)}


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def write_result(module: str, result: Mapping[str, Any]) -> Path:
    """Write a module's result with the command, the versions and the machine."""
    path = _path(module)
    path.parent.mkdir(parents=True, exist_ok=True)
    made_by = {"command": f"python -m benchmarks.{module}", **environment()}
    path.write_text(json.dumps({**made_by, **result}, indent=2) + "\n")
    return path


def read_result(module: str) -> dict[str, Any] | None:
    """A module's result; None if there is none."""
    path = _path(module)
    return json.loads(path.read_text()) if path.exists() else None


def _path(module: str) -> Path:
    """The result of "speed.control" is results/speed/control.json."""
    return RESULTS.joinpath(*module.split(".")).with_suffix(".json")


def environment() -> dict[str, Any]:
    """The versions and the machine that a result depends on."""
    return {"versions": _versions(), "machine": _machine()}


def commit() -> str | None:
    """Of the code that runs, if it comes from a repository."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        told = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}


def _machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "cpu": cpu_name(), "load_at_end": [round(load, 2) for load in os.getloadavg()]}


def cpu_name() -> str:
    """What the machine calls its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def describe_index(agent: Wolpertinger) -> str:
    """What the lookup of the agent's k uses."""
    if agent.actions.kind != "table":
        return "structured"
    return str(agent.actions.stats(agent.k).get("index", "exact"))
