import io
import json

import numpy as np
import pytest
from rich.console import Console

from benchmarks.lookup.sets import isotropic
from wolpertinger.cli.tuning import as_json, best_of_each, summary, table, tune
from wolpertinger.index import Trial, TuningResult

SETTINGS = {"batch": 64, "build_seconds": 5.0}


@pytest.fixture(scope="module")
def tuned():
    return tune(isotropic(rows=3_000), k=0.01, recall="medium", **SETTINGS)


def shown(table):
    console = Console(width=80, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()


def test_a_promise_is_measured_on_other_queries(tuned):
    assert (tuned.tuning.k, tuned.tuning.target_recall, tuned.queries) == (30, 0.9, 1_000)
    assert tuned.held_out >= 0.89
    assert tuned.table.health[0].index.startswith(tuned.tuning.recipe)


def test_the_table_shows_every_index_once_and_marks_the_choice(tuned):
    text = shown(table(tuned))
    tried = {trial.recipe for trial in tuned.tuning.trials}
    assert "exact" in tried
    for recipe in tried | tuned.tuning.skipped.keys():
        assert sum(line.strip(" *").split(" ")[0] == recipe for line in text.splitlines()) == 1
    assert text.count("* ") == 1
    assert tuned.tuning.recipe in summary(tuned)
    assert f"± {1.96 * tuned.standard_error:.4f} (95 %) on 1000 other queries" in summary(tuned)


def test_everything_is_plain_json(tuned):
    assert json.loads(json.dumps(as_json(tuned)))["promised"] == 0.9


def test_the_best_of_each_index_is_what_was_chosen_or_fast_or_near():
    def trial(recipe, recall, seconds, keeps, chosen=False):
        return Trial(recipe, "", recall, seconds, 0.0, 0.0, keeps, chosen)

    trials = [
        trial("exact", 1.0, 9.0, True),
        trial("a", 0.8, 1.0, False),
        trial("a", 0.95, 3.0, True),
        trial("a", 0.96, 2.0, True, chosen=True),
        trial("a", 0.97, 1.9, True),
        trial("b", 0.5, 1.0, False),
        trial("b", 0.6, 5.0, False),
    ]
    tuning = TuningResult(1, 0.9, None, "a", "", trials)
    assert best_of_each(tuning) == [trials[3], trials[0], trials[6]]


def test_a_recipe_of_ones_own_is_tuned():
    tuned = tune(isotropic(rows=3_000), k=5, recall=0.8, recipe="IVF16,SQ8", **SETTINGS)
    assert {trial.recipe for trial in tuned.tuning.trials} == {"exact", "IVF16,SQ8"}


@pytest.mark.parametrize("recall", [0.0, 1.5, "quick", np.nan])
def test_no_recall_is_an_error(recall):
    with pytest.raises(ValueError, match=r"give a share of the true neighbours in \(0, 1\], or 'slow'"):
        tune(isotropic(rows=100), k=1, recall=recall, **SETTINGS)
