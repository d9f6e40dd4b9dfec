"""Tables of the suite's results, from the files alone."""

import json
import statistics
from typing import Any

from benchmarks.measure import RESULTS

ROWS = (("shop", "class-defaults"), ("sardine-bored", "class-defaults"), ("sardine-bored", "dqn"))
NAMES = {"class-defaults": "`Wolpertinger`, nothing set", "dqn": "Stable-Baselines3's DQN, nothing set"}


def class_defaults() -> str:
    """What a newcomer gets with nothing set: the last score of each seed."""
    lines = [
        "| task | steps | agent | last score (seeds) | mean | processor seconds |",
        "| --- | ---: | --- | --- | ---: | ---: |",
    ]
    return "\n".join([*lines, *(_row(task, label) for task, label in ROWS)])


def _row(task: str, label: str) -> str:
    found: list[dict[str, Any]] = [
        json.loads(path.read_text()) for path in sorted((RESULTS / "suite").glob(f"{task}-{label}-*.json"))
    ]
    if not found:
        return f"| {task} | missing |"
    scores = [run["last"] for run in found]
    cells = [
        task,
        f"{found[0]['steps']:,}",
        NAMES[label],
        ", ".join(f"{score:.1f}" for score in scores),
        f"**{statistics.mean(scores):.1f}**",
        f"{statistics.median(run['processor_seconds'] for run in found):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


TABLES = {
    ("README.md", "newcomer"): class_defaults,
    ("docs/decisions/023-defaults.md", "newcomer"): class_defaults,
}
