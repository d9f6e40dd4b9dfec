"""The fastest index that keeps a recall, what was tried on the way, and whether it holds on other queries."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wolpertinger.actions import ActionTable, resolve_k
from wolpertinger.cli.vectors import LookupSet
from wolpertinger.index import ExactIndex, Trial, TuningResult
from wolpertinger.index.measure import recall as recall_of
from wolpertinger.index.tune import check_recall, count_queries

if TYPE_CHECKING:
    from rich.table import Table

TUNE_SEED, HELD_OUT_SEED = 0, 1


@dataclass(frozen=True)
class Tuned:
    """A table with its tuned index, and how that does on queries it was not tuned on."""

    table: ActionTable
    tuning: TuningResult
    held_out: float
    standard_error: float
    queries: int


def tune(
    chosen: LookupSet,
    *,
    k: int | float,
    recall: float | str,
    batch: int,
    build_seconds: float,
    recipe: str | None = None,
) -> Tuned:
    """Tune an action table over the set's vectors for k (a count, or a share) and a recall."""
    table = ActionTable(chosen.vectors, index=recipe, recall=check_recall(recall), build_seconds=build_seconds)
    count = resolve_k(k, table.n)
    tuning = table.tune(chosen.queries(count_queries(count), TUNE_SEED), count, batch=batch)
    others = chosen.queries(count_queries(count), HELD_OUT_SEED)
    exact = ExactIndex(chosen.vectors).search(others, count)
    recalls = recall_of(chosen.vectors, others, tuning.index.search(others, count), exact)
    error = float(recalls.std() / np.sqrt(len(recalls)))
    return Tuned(table, tuning, float(recalls.mean()), error, len(recalls))


def table(tuned: Tuned) -> "Table":
    """All that was tried: the best setting of each index, the fastest first."""
    from rich import box
    from rich.table import Table

    tuning = tuned.tuning
    title = f"{tuned.table.n:,} x {tuned.table.dim}, k = {tuning.k:,}, recall {tuning.target_recall:g}"
    caption = "ms: a query, in batches; B: bytes a vector, beside the vectors themselves; dim: falls short"
    rows = Table(title=title, caption=caption, box=box.SIMPLE_HEAD)
    rows.add_column("index", no_wrap=True)
    rows.add_column("setting", max_width=28)
    for heading in ("recall", "ms", "build s", "B"):
        rows.add_column(heading, justify="right", no_wrap=True)
    for trial in best_of_each(tuning):
        numbers = (1e3 * trial.seconds, trial.build_seconds, trial.bytes_per_vector)
        rows.add_row(
            ("* " if trial.chosen else "  ") + trial.recipe,
            trial.setting,
            f"{trial.recall:.3f}",
            *(f"{value:{form}}" for value, form in zip(numbers, (".4f", ".1f", ".0f"), strict=True)),
            style="bold" if trial.chosen else None if trial.keeps else "dim",
        )
    for recipe, why in tuning.skipped.items():
        rows.add_row("  " + recipe, f"not tried: {why}", style="dim")
    return rows


def best_of_each(tuning: TuningResult) -> list[Trial]:
    """For each index what was chosen, else the fastest setting that keeps the promise, else the nearest to it."""

    def merit(trial: Trial) -> tuple[bool, bool, float]:
        return trial.chosen, trial.keeps, -trial.seconds if trial.keeps else trial.recall

    recipes = dict.fromkeys(trial.recipe for trial in tuning.trials)
    best = [max((trial for trial in tuning.trials if trial.recipe == recipe), key=merit) for recipe in recipes]
    return sorted(best, key=lambda trial: (not trial.chosen, not trial.keeps, trial.seconds))


def summary(tuned: Tuned) -> str:
    """The choice in one line, with the recall on other queries."""
    tuning = tuned.tuning
    setting = f" ({tuning.setting})" if tuning.setting else ""
    tried = f"{len(tuning.trials)} settings tried"
    within = f"± {1.96 * tuned.standard_error:.4f} (95 %)"
    held_out = f"recall {tuned.held_out:.4f} {within} on {tuned.queries} other queries"
    return f"chosen: {tuning.recipe}{setting}; {held_out}; {tried}"


def as_json(tuned: Tuned) -> dict[str, Any]:
    """Everything, in JSON's terms."""
    tuning = tuned.tuning
    return {
        "n": tuned.table.n,
        "dim": tuned.table.dim,
        "k": tuning.k,
        "promised": tuning.target_recall,
        "recipe": tuning.recipe,
        "setting": tuning.setting,
        "held_out": {"recall": tuned.held_out, "standard_error": tuned.standard_error, "queries": tuned.queries},
        "trials": [asdict(trial) for trial in tuning.trials],
        "skipped": tuning.skipped,
    }
