from dataclasses import replace
from pathlib import Path

import pytest

from reproduction.plan import Run, runs, variants
from reproduction.results import Results
from tests.reproduction.tiny import tiny_variants

VARIANT = tiny_variants()["recommender-835/k-5-percent"]


def test_a_result_is_only_that_of_its_own_settings(tmp_path):
    results = Results(tmp_path)
    assert results.of(VARIANT) == []
    results.write(Run(VARIANT, 0), {"steps": 7})
    assert [found["steps"] for found in results.of(VARIANT)] == [7]
    for changed in (
        replace(VARIANT, seconds=1.0),
        replace(VARIANT, arguments={**VARIANT.arguments, "k": 3}),
        replace(VARIANT, arguments={**VARIANT.arguments, "changes": {"tau": 0.5}}),
    ):
        assert results.of(changed) == []
    assert results.read(Run(VARIANT, 1)) is None


def test_the_name_of_a_preset_makes_no_other_run_but_its_settings_do(tmp_path, monkeypatch):
    results, run = Results(tmp_path), Run(VARIANT, 0)
    results.write(run, {})
    spec = run.spec()
    monkeypatch.setattr(Run, "spec", lambda self: {**spec, "preset": "of another name"})
    assert results.read(run) is not None
    monkeypatch.setattr(Run, "spec", lambda self: {**spec, "n_envs": spec["n_envs"] + 1})
    assert results.read(run) is None


def test_no_committed_result_is_of_other_settings_than_the_plans():
    results = Results(Path(__file__).parents[2] / "results")
    planned = {results.path(run): run for run in runs(variants())}
    found = set((results.folder / "runs").rglob("*.json"))
    assert found <= planned.keys()
    assert [str(path) for path in found if results.read(planned[path]) is None] == []
    assert found


def test_an_option_that_came_later_makes_no_other_run(tmp_path, monkeypatch):
    results, run = Results(tmp_path), Run(VARIANT, 0)
    results.write(run, {})
    spec = run.spec()
    monkeypatch.setattr(Run, "spec", lambda self: {**spec, "new": None})
    assert results.read(run) is not None
    monkeypatch.setattr(Run, "spec", lambda self: {**spec, "new": 1})
    assert results.read(run) is None


def test_a_file_that_is_no_result_is_named(tmp_path):
    results = Results(tmp_path)
    results.write(Run(VARIANT, 0), {})
    path = results.path(Run(VARIANT, 0))
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ValueError, match=r"seed-0.json is no result file .*: remove it"):
        results.of(VARIANT)


def test_nothing_but_the_result_is_left_after_writing(tmp_path):
    results = Results(tmp_path)
    results.write(Run(VARIANT, 0), {})
    assert [path.name for path in (tmp_path / "runs").rglob("*") if path.is_file()] == ["seed-0.json"]
