import json
from dataclasses import asdict

import pytest

from benchmarks.learning import search
from benchmarks.learning.runs import result_path
from benchmarks.learning.search import PAPER, SEARCH, SEEDS, deepest_fall, runs, verdict
from wolpertinger.runs import make_config


def shares(values):
    return [{"last": {"share": value}} for value in values]


GOOD = [0.7] * (len(SEEDS) - 1)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([*GOOD, 0.68], [0.6] * 5, "holds"),
        ([*GOOD, 0.6], [0.5] * 5, "missed"),  # one seed far below the median
        ([*GOOD, 0.68], [*[0.6] * 4, 0.69], "missed"),  # not clearly above
        ([0.64] * 5, [0.5] * 5, "missed"),
        (GOOD, [0.6] * 5, "not decided"),
    ],
)
def test_a_verdict_takes_all_seeds_of_both(ours, theirs, expected):
    assert verdict(0.65, {SEARCH: shares(ours), PAPER: shares(theirs)}) == expected


@pytest.mark.parametrize(("curve", "fall"), [([1, 2, 3], 0), ([1, 3, 2, 4, 2.5], 1.5), ([2], 0), ([3, 1, 5, 4], 2)])
def test_the_deepest_fall(curve, fall):
    assert deepest_fall(curve) == fall


def test_every_run_has_settings_that_make_sense_and_a_file_of_its_own():
    configs = {name: make_config("recommender", **arguments) for name, arguments in runs().items()}
    assert len({result_path(name) for name in configs}) == len(configs)
    assert len({repr(config) for config in configs.values()}) == len(configs)
    for name, config in configs.items():
        assert (config.agent["candidates"]["kind"] == "nearest") == (PAPER in name)
        assert config.steps == search.ENDLESS


def test_a_result_of_other_settings_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.learning.runs.RESULTS", tmp_path)
    name, arguments = next(iter(runs().items()))
    config = asdict(make_config("recommender", **arguments))
    result_path(name).write_text(json.dumps({"config": config}))
    assert search.result(name)["config"] == config
    result_path(name).write_text(json.dumps({"config": {**config, "n_envs": 3}}))
    assert search.result(name) is None


def test_a_missing_seed_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.learning.runs.RESULTS", tmp_path)
    assert search.comparison_table().count("missing: has 0 seeds") == 6
    assert "not decided" in search.comparison_table()
    assert "missing" in search.ablation_table()
