"""Tables of the suite's results, from the files alone."""

import json
import statistics
from collections.abc import Callable

import numpy as np

from benchmarks.measure import RESULTS
from benchmarks.suite.results import (
    OURS,
    RIVALS,
    Scores,
    anchors,
    clip,
    interquartile_mean,
    last_scores,
    probability_of_improvement,
    processor_seconds,
    read_runs,
    scores_at_equal_seconds,
)

NAMES = {
    OURS: "`Wolpertinger`",
    "dqn": "DQN",
    "qr-dqn": "QR-DQN",
    "ppo": "PPO",
    "ddpg": "DDPG, rounded",
    "td3": "TD3, rounded",
    "sac": "SAC, rounded",
    "sac-topk": "SAC with TopK",
    "maskable-ppo": "MaskablePPO",
}


def newcomer() -> str:
    """What a newcomer gets with nothing set: mean of the last scores, rivals at the same processor seconds."""
    lines = [
        "| task | steps | seconds | random | best known | `Wolpertinger` (seeds) | rivals at equal seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    return "\n".join([*lines, *(_row(task) for task in RIVALS if read_runs(task, OURS))])


def _row(task: str) -> str:
    runs, (random, best) = read_runs(task, OURS), anchors(task)
    rivals = ((name, scores_at_equal_seconds(task, name)) for name in RIVALS[task])
    shown = [f"{NAMES[name]} {_number(statistics.mean(scores))} ({len(scores)})" for name, scores in rivals if scores]
    ours = [run["last"] for run in runs]
    cells = [
        task,
        f"{runs[0]['steps']:,}",
        f"{processor_seconds(runs):,.0f}",
        _number(random),
        _number(best),
        f"**{_number(statistics.mean(ours))}** ({', '.join(map(_number, ours))})",
        ", ".join(shown) or "none measured",
    ]
    return f"| {' | '.join(cells)} |"


def _number(score: float) -> str:
    return f"{score:,.0f}" if abs(score) >= 100 else f"{score:.1f}"


def against_rivals() -> str:
    """Interquartile means of normalised scores over the tasks that a rival has run, ours over the same ones."""
    lines = [
        "| rival | tasks | equal steps: rival | ours | equal seconds: rival | ours | a run of ours is better |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    names = dict.fromkeys(name for rivals in RIVALS.values() for name in rivals)
    return "\n".join([*lines, *(row for name in names if (row := _rival_row(name)))])


def _rival_row(name: str) -> str | None:
    tasks = [task for task, rivals in RIVALS.items() if name in rivals and read_runs(task, name)]
    tasks = [task for task in tasks if len(read_runs(task, OURS)) > 1 and len(read_runs(task, name)) > 1]
    if not tasks:
        return None
    ours = [_normalised(last_scores, task, OURS) for task in tasks]
    by_steps = [_normalised(last_scores, task, name) for task in tasks]
    by_seconds = [_normalised(scores_at_equal_seconds, task, name) for task in tasks]
    cells = [NAMES[name], str(len(tasks)), *(_interval(part) for part in (by_steps, ours, by_seconds, ours))]
    return f"| {' | '.join(cells)} | {probability_of_improvement(ours, by_seconds):.0%} |"


def _normalised(read: Callable[[str, str], list[float]], task: str, label: str) -> Scores:
    random, best = anchors(task)
    return clip((np.asarray(read(task, label)) - random) / (best - random))


def _interval(tasks: list[Scores]) -> str:
    middle, low, high = interquartile_mean(tasks)
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def units() -> str:
    """The shop in its own and in other units, with and without standard ones."""
    rows = [
        ("shop", OURS, 1, "its own", "yes"),
        ("shop-units", OURS, 100, "others", "yes"),
        ("shop-units", "no-standardize", 100, "others", "no"),
    ]
    lines = ["| units | standardised | seeds | mean |", "| --- | --- | --- | ---: |"]
    for task, label, unit, name, standard in rows:
        scores = [score / unit for score in last_scores(task, label)]
        shown = ", ".join(f"{score:.1f}" for score in scores) or "missing"
        lines.append(f"| {name} | {standard} | {shown} | {statistics.mean(scores or [float('nan')]):.1f} |")
    return "\n".join(lines)


def controls() -> str:
    """What was tried for levels of controls: the score at the end of each run, by change and task."""
    runs = json.loads((RESULTS / "suite" / "controls.json").read_text())["runs"]
    tasks, cells = sorted({run["task"] for run in runs}), {}
    for run in runs:
        change = ", ".join([run["prototype"], *(f"`{part}`" for part in run["set"])])
        row = cells.setdefault(change, {task: [] for task in tasks})
        row[run["task"]].append(
            f"{run['scores'][-1]:.3g}" if abs(run["scores"][-1]) < 100 else f"{run['scores'][-1]:.0f}"
        )
    head = [f"| change | {' | '.join(tasks)} |", f"| --- |{' --- |' * len(tasks)}"]
    return "\n".join(
        head + [f"| {name} | {' | '.join(', '.join(row[t]) for t in tasks)} |" for name, row in cells.items()]
    )


def factored() -> str:
    """Forms of a critic for levels of controls, and updates per transition."""
    lines = [
        "| task | critic and learner | returns of | transitions an update | seed | steps | scores on the way | s |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | ---: |",
    ]
    for row in json.loads((RESULTS / "suite" / "factored.json").read_text())["rows"]:
        returns = f"{row['n_steps']} step{'' if row['n_steps'] == 1 else 's'}"
        parts = (row["task"], row["form"], returns, row["transitions_per_update"], row["seed"], f"{row['steps']:,}")
        cells = (*parts, ", ".join(map(_number, row["scores"])), row["processor_seconds"] or "")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def tried() -> str:
    """Settings that were tried while the defaults were chosen."""
    lines = [
        "| task | steps | seed | set | the class then | scores at quarters |",
        "| --- | ---: | ---: | --- | --- | --- |",
    ]
    for row in json.loads((RESULTS / "suite" / "tried.json").read_text())["rows"]:
        changed = ", ".join(f"`{pair}`" for pair in row["set"]) or "nothing"
        scores = ", ".join(map(_number, row["curve"]))
        cells = (row["task"], f"{row['steps']:,}", row["seed"], changed, row["class_defaults_then"], scores)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


TABLES = {
    ("docs/decisions/023-defaults.md", "tried"): tried,
    ("docs/decisions/023-defaults.md", "controls"): controls,
    ("docs/decisions/029-factored-critic.md", "factored"): factored,
    ("docs/decisions/024-standard-units.md", "units"): units,
    ("README.md", "newcomer"): newcomer,
    ("docs/suite.md", "newcomer"): newcomer,
    ("docs/suite.md", "rivals"): against_rivals,
}
