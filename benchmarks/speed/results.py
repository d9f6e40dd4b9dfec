"""The result files of benchmarks.speed, read for tables, plots and verdicts; what is not there is None."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS as ALL_RESULTS

RESULTS = ALL_RESULTS / "speed"
ALL = {"recommender": 13_138, "cart-pole": 1_000_000, "puddle-world": 2**20}  # actions of the paper's tables


@contextmanager
def reading_from(folder: Path) -> Iterator[None]:
    """Read the result files of another folder meanwhile."""
    global RESULTS
    own, RESULTS = RESULTS, folder
    try:
        yield
    finally:
        RESULTS = own


def read(part: str) -> dict[str, Any] | None:
    """A part's result."""
    path = RESULTS / f"{part}.json"
    return json.loads(path.read_text()) if path.exists() else None


def row(part: str, **wanted: Any) -> dict[str, Any] | None:
    """The row of a part that has these values."""
    rows = (read(part) or {}).get("rows", [])
    return next((row for row in rows if all(row.get(name) == value for name, value in wanted.items())), None)


def step_row(task: str, k: int) -> dict[str, Any] | None:
    """The row of a task's table; Puddle World's last one has a file of its own."""
    return row(task, k=k) or row(f"{task}-all", k=k)


def cell(task: str, k: int, contender: str) -> dict[str, Any] | None:
    """A contender's cell, if it was measured.

    Where every action is a candidate there is nothing to look up: an index is as the exact scan then.
    """
    cells = (step_row(task, k) or {}).get("cells", {})
    if contender not in cells and contender in ("slow", "medium", "fast") and k == ALL.get(task):
        contender = "exact"
    found = cells.get(contender)
    return found if found is not None and "seconds" in found else None


def seconds(task: str, k: int, contender: str) -> float | None:
    """Of a step, the median."""
    found = cell(task, k, contender)
    return None if found is None else found["seconds"]["median"]


def ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above / below
