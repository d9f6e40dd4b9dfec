import json

import numpy as np
import pytest
from scipy import stats

from benchmarks.suite import results


def write(folder, task, label, seed, **content):
    defaults = {"last": 1.0, "processor_seconds": 10.0, "curve": [[1, 1.0, 1.0, 1.0]], "random": 0.0, "best_known": 2.0}
    path = folder / "suite" / f"{task}-{label}-{seed}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**defaults, **content}))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    return tmp_path


def test_a_label_is_not_taken_for_another_that_begins_alike(folder):
    write(folder, "shop", "dqn", 0)
    write(folder, "shop", "dqn-seconds", 0, last=7.0)
    write(folder, "shop-ends", "dqn", 0, last=9.0)
    assert results.last_scores("shop", "dqn") == [1.0]
    assert results.last_scores("shop", "dqn-seconds") == [7.0]


def test_a_slower_rival_is_looked_at_when_ours_was_done(folder):
    write(folder, "shop", results.OURS, 0, processor_seconds=10.0)
    curve = [[100, 3.0, 5.0, 5.0], [200, 4.0, 10.5, 10.5], [300, 8.0, 20.0, 20.0]]
    write(folder, "shop", "ddpg", 0, curve=curve, last=8.0, processor_seconds=20.0)
    assert results.scores_at_equal_seconds("shop", "ddpg") == [4.0]  # at up to a tenth more


def test_a_faster_rival_has_a_longer_run(folder):
    write(folder, "shop", results.OURS, 0, processor_seconds=10.0)
    write(folder, "shop", "dqn", 0, last=1.0, processor_seconds=5.0)
    write(folder, "shop", "dqn-seconds", 0, last=2.0, processor_seconds=10.0)
    assert results.scores_at_equal_seconds("shop", "dqn") == [2.0]
    assert results.scores_at_equal_seconds("shop", results.OURS) == [1.0]


def test_the_interquartile_mean_is_over_all_runs_and_lies_in_its_interval():
    rng = np.random.default_rng(0)
    tasks = [rng.normal(size=5), rng.normal(1, 0.1, size=5), rng.normal(size=3)]
    middle, low, high = results.interquartile_mean(tasks)
    assert middle == pytest.approx(stats.trim_mean(np.concatenate(tasks), 0.25))
    assert low < middle < high


def test_the_probability_of_improvement_equals_a_loop_over_pairs():
    rng = np.random.default_rng(0)
    ours, theirs = ([rng.integers(4, size=n).astype(float) for n in (5, 3)] for _ in range(2))
    pairs = [
        np.mean([(a > b) + 0.5 * (a == b) for a in mine for b in other])
        for mine, other in zip(ours, theirs, strict=True)
    ]
    assert results.probability_of_improvement(ours, theirs) == pytest.approx(np.mean(pairs))
    assert results.probability_of_improvement([np.ones(3)], [np.zeros(2)]) == 1
