"""The tables of README.md and docs/learning.md, rendered from the result files by benchmarks.tables."""

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.learning.runs import CHANGES, CLAIMS, OTHER_CHANGES, OTHERS, TASKS, results


def claims_table() -> str:
    """The README's table."""
    rows = ["| task | agent, share of the optimum (seeds) | best fixed item | random | distinct items | seconds |"]
    rows.append("| --- | --- | --- | --- | --- | --- |")
    for name in CLAIMS:
        found = results(name)
        if not found:
            rows.append(f"| {name.split('/')[1]} | missing |")
            continue
        shares = [entry["last"]["share"] for entry in found]
        baselines = found[0]["baselines"]
        fixed, random = (baselines[key] / baselines["optimum"] for key in ("best fixed item", "random"))
        distinct = ", ".join(f"{entry['last']['distinct']:.0f}" for entry in found)
        seconds = statistics.median(entry["seconds"] for entry in found)
        rows.append(
            f"| {name.split('/')[1]} | **{statistics.mean(shares):.1%}** ({', '.join(f'{s:.1%}' for s in shares)}) "
            f"| {fixed:.1%} | {random:.1%} | {distinct} | {seconds:.0f} |"
        )
    return "\n".join(rows)


def ablation_table() -> str:
    """The table of docs/learning.md."""
    rows = [
        "| one change against our settings | generated | seconds | Complete Journey | seconds |",
        "| --- | --- | --- | --- | --- |",
    ]
    for change in CHANGES:
        cells = []
        for task in TASKS:
            found = results(f"ablation/{task}/{change}")
            shares = ", ".join(f"{entry['last']['share']:.1%}" for entry in found) or "missing"
            seconds = f"{statistics.median(entry['seconds'] for entry in found):.0f}" if found else ""
            cells += [shares, seconds]
        rows.append(f"| {change} | {' | '.join(cells)} |")
    return "\n".join(rows)


def others_table() -> str:
    """The README's table of the other tasks: the best checkpoint, on fresh episodes."""
    rows = [
        "| task | actions | best checkpoint's return (seeds) | share of the best known | at the end | best known "
        "| random | seconds to the best checkpoint, in all |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in OTHERS:
        found = results(f"default/{name}")
        if not found:
            rows.append(f"| {name} | missing |")
            continue
        returns, last = ([run["evaluation"][which]["return"] for run in found] for which in ("best", "last"))
        baselines = found[0]["baselines"]
        best = next(iter(baselines.items()))
        shares = "" if best[0] == "random" else ", ".join(f"{value / best[1]:.1%}" for value in returns)
        known = "" if best[0] == "random" else f"{best[1]:.1f} ({best[0]})"
        to_best, in_all = (max(times) for times in zip(*map(_seconds, found), strict=True))
        best_returns, last_returns = (", ".join(f"{value:.1f}" for value in values) for values in (returns, last))
        rows.append(
            f"| {name} | {_actions(found[0]['config']):,} | **{statistics.mean(returns):.1f}** ({best_returns}) "
            f"| {shares} | {last_returns} | {known} | {baselines['random']:.1f} | {to_best:.0f}, {in_all:.0f} |"
        )
    return "\n".join(rows)


def _seconds(run: dict[str, Any]) -> tuple[float, float]:
    """Training and evaluating, until the best checkpoint was kept and until the end."""
    evaluating = run["evaluating_seconds"] * run["best"]["steps"] / run["steps"]
    return run["best"]["seconds"] + evaluating, run["seconds"] + run["evaluating_seconds"]


def _actions(config: dict[str, Any]) -> int:
    env = config["env"]
    return 2 ** env["plan"] if "plan" in env else env["levels"]


def others_ablation(task: str) -> str:
    """What was tried on a task, and what it came to."""
    rows = ["| one change against the defaults | best checkpoint | at the end | seconds |", "| --- | --- | --- | --- |"]
    for change in OTHER_CHANGES[task]:
        found = results(f"ablation/{task}/{change}")
        cells = ["missing", "", ""]
        if found:
            best, last = (
                [f"{entry['evaluation'][which]['share']:.1%}" for entry in found] for which in ("best", "last")
            )
            cells = [", ".join(best), ", ".join(last), f"{statistics.median(entry['seconds'] for entry in found):.0f}"]
        rows.append(f"| {change} | {' | '.join(cells)} |")
    return "\n".join(rows)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("README.md", "claims"): claims_table,
    ("README.md", "others"): others_table,
    ("docs/learning.md", "ablation"): ablation_table,
    ("docs/learning.md", "cart-pole"): lambda: others_ablation("cart-pole"),
    ("docs/learning.md", "puddle-world"): lambda: others_ablation("puddle-world"),
}
