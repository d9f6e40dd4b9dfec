"""The tables of docs/choosing-k.md; that they are in the document is tested with the other documents."""

import pytest

from benchmarks import advice


def test_a_missing_run_reads_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(advice, "RESULTS", tmp_path)
    assert advice.runs_table().count("missing") == len(advice.TRAINING)
    assert advice.example() == advice.lemma_table() == "missing"


@pytest.mark.parametrize("name", advice.TRAINING)
def test_a_result_says_how_it_was_made(name):
    found = advice.read(name)
    assert found["command"] == f"wolpertinger train {advice.TRAINING[name]}"
    assert {"versions", "machine", "threads"} <= found["training"].keys()
