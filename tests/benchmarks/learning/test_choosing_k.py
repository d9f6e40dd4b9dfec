"""The tables of docs/choosing-k.md; that they are in the document is tested with the other documents."""

import pytest

from benchmarks.learning import choosing_k, runs
from benchmarks.measure import read_result


def test_returns_count_from_random_actions_and_end_at_the_best():
    rows = [{"k": 1, "return": 3.0}, {"k": 20, "return": 5.0}, {"k": 500, "return": 1.0}]
    assert choosing_k.shares_of_best({"random": 1.0, "rows": rows}) == pytest.approx({1: 0.5, 20: 1.0, 500: 0.0})


def test_the_rule_holds_in_the_committed_runs():
    runs = read_result("learning.choosing_k")["runs"]
    assert min(choosing_k.shares_of_best(run)[choosing_k.RULE] for run in runs.values()) > 0.95


def test_what_is_not_there_reads_missing(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.measure.RESULTS", tmp_path)
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    assert choosing_k.acting_table() == "missing"
    assert choosing_k.trained_table().count("missing") == len(runs.TASKS) * len(choosing_k.TRAINED)
