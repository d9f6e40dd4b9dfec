"""The data behind docs/choosing-k.md: returns of trained agents that act, or were trained, with other k.

`benchmarks.tables` renders them. The first were made by a tool that is gone, and their file says which; the second are
those of the ablation in `benchmarks.learning`.
"""

from typing import Any

from benchmarks.learning import runs
from benchmarks.measure import read_result

ACTING = (1, 5, 20, 200, 500)
RULE = 20  # the k of the rule, whose cost is shown
TRAINED = {"k = 1": "k = 1", "1 %": "k = 1 %", "5 %": "as it is", "10 %": "k = 10 %"}  # changes of the ablation


def acting_table() -> str:
    """Each run's agent acting with other k: its return above random, as a share of the most at any k."""
    kept = read_result("learning.choosing_k")
    if kept is None:
        return "missing"
    headings = ["run", "actions", "trained with", *(f"k = {k}" for k in ACTING), "k by Lemma 1"]
    headings.append(f"step at k = {RULE} over k = 1")
    lines = [_line(headings), "| --- |" + " ---: |" * (len(headings) - 1)]
    for name, run in kept["runs"].items():
        shares = shares_of_best(run)
        cells = [f"{shares[k]:.1%}" if k in shares else "not measured" for k in ACTING]
        (slower,) = (row["step_time_over_k_1"] for row in run["rows"] if row["k"] == RULE)
        cells.append(f"{shares[run['lemma_k']]:.1%} (k = {run['lemma_k']})")
        lines.append(_line([name, f"{run['actions']:,}", f"{run['trained_k']}", *cells, f"{slower:.1f} times"]))
    return "\n".join(lines)


def shares_of_best(run: dict[str, Any]) -> dict[int, float]:
    """Returns by k, counted from random actions, over the best of them."""
    gains = {row["k"]: row["return"] - run["random"] for row in run["rows"]}
    return {k: gain / max(gains.values()) for k, gain in gains.items()}


def trained_table() -> str:
    """The recommender trained with other k: share of the optimum at the end."""
    lines = [_line(["trained with", *TRAINED]), "| --- |" + " ---: |" * len(TRAINED)]
    for task in runs.TASKS:
        found = [runs.results(f"ablation/{task}/{change}") for change in TRAINED.values()]
        shares = [f"{entries[0]['last']['share']:.1%}" if entries else "missing" for entries in found]
        lines.append(_line([task, *shares]))
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


TABLES = {("docs/choosing-k.md", "acting"): acting_table, ("docs/choosing-k.md", "trained"): trained_table}
