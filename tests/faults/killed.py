"""SIGKILL at random moments of runs by the command line; resumed, they end bit-equal to one that was left alone."""

import random
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

from tests.faults.tasks import TASKS, event_steps, fingerprint, kill, log_steps, resume, train, wait

MOST_KILLS = 12  # of one run


def attack(task: str, kills: int, seed: int) -> dict[str, Any]:
    """Kill runs of a task so many times in all, resume each until its end, and compare."""
    rng = random.Random(seed)
    found: dict[str, Any] = {"kills": 0, "runs": 0, "equal": 0, "failures": []}
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        start = monotonic()
        assert wait(train(task, whole)) == 0
        seconds, expected = monotonic() - start, fingerprint(whole)
        while found["kills"] < kills:
            folder = Path(place) / f"run-{found['runs']}"
            found["kills"] += _killed(task, folder, min(MOST_KILLS, kills - found["kills"]), seconds, rng)
            found["runs"] += 1
            problem = _difference(folder, expected)
            found["equal"] += problem is None
            found["failures"] += [] if problem is None else [problem]
    return found


def _killed(task: str, folder: Path, most: int, seconds: float, rng: random.Random) -> int:
    """Train to the end with kills in between; how many there were."""
    child, kills = train(task, folder), 0
    while kills < most:
        # Mostly early in what is left of the run, or its end would come before the kills do.
        if (code := wait(child, rng.uniform(0.1, 0.5 * seconds))) is not None:
            assert code == 0, folder.with_suffix(".errors").read_text()
            return kills
        kill(child)
        wait(child)
        kills += 1
        if (folder / "curve.png").exists():  # it had just finished
            return kills
        # Before it has written its config a run is not there yet.
        child = resume(folder) if (folder / "config.json").exists() else train(task, folder)
    assert wait(child) == 0, folder.with_suffix(".errors").read_text()
    return kills


def _difference(folder: Path, expected: dict[str, str]) -> str | None:
    found = fingerprint(folder)
    if different := [name for name in expected if found[name] != expected[name]]:
        return f"{', '.join(different)} differ"
    steps, events = log_steps(folder), event_steps(folder)
    if [str(step) for step in events] != steps:
        return f"the log has {len(steps)} steps, TensorBoard {len(events)}"
    litter = [path.name for path in folder.rglob(".*")]
    return f"{litter} stayed behind" if litter else None


def attack_all(kills: int, seed: int = 0) -> dict[str, Any]:
    """`kills` of every task."""
    return {task: attack(task, kills, seed + number) for number, task in enumerate(TASKS)}
