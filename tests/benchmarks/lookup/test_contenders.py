import sys
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.lookup.contenders import CONTENDERS, STEP, Flann, efforts
from wolpertinger.index import ExactIndex
from wolpertinger.index.measure import recall
from wolpertinger.threads import using_threads

ROWS = 900  # FLANN's autotuning takes half a minute from 1,000 rows on, and scans below


def random_table(n, dim=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


@pytest.fixture(params=CONTENDERS)
def contender(request):
    entry = CONTENDERS[request.param]
    pytest.importorskip(entry.module)
    made = entry.make()
    assert made.name == request.param
    with using_threads(1):  # two that race make another graph each time: recalls of 0.98 to 1
        made.build(random_table(ROWS))
    return made


@pytest.mark.parametrize("k", [1, 9, 200])
def test_the_most_careful_setting_finds_what_a_scan_finds(contender, k):
    vectors, queries = random_table(ROWS), random_table(64, seed=1)
    settings = contender.settings(k)
    assert settings == sorted(set(settings))
    exact = ExactIndex(vectors).search(queries, k)
    found = contender.search(queries, k, settings[-1])
    assert found.shape == (64, k)
    assert found.dtype == np.int64
    assert recall(vectors, queries, found, exact).mean() > 0.99
    quick = recall(vectors, queries, contender.search(queries, k, settings[0]), exact).mean()
    assert 0.05 < quick <= 1.0


def test_one_query_is_a_batch_too(contender):
    found = contender.search(random_table(1, seed=1), 3, 100)
    assert found.shape == (1, 3)
    assert found.min() >= 0


def test_all_rows_can_be_asked_for(contender):
    found = contender.search(random_table(4, seed=1), ROWS, contender.settings(ROWS)[-1])
    assert found.shape == (4, ROWS)
    assert np.mean([len(set(row) - {-1}) for row in found.tolist()]) > 0.95 * ROWS  # graphs may miss a few


def test_vectors_that_only_the_contender_holds_stay_alive():
    pytest.importorskip("cv2")
    made = CONTENDERS["FLANN k-means tree"].make()
    made.build(random_table(ROWS))
    del_me = [np.zeros((ROWS, 6), np.float32) for _ in range(50)]  # would overwrite memory that was given back
    queries = random_table(64, seed=1)
    exact = ExactIndex(random_table(ROWS)).search(queries, 1)
    assert recall(random_table(ROWS), queries, made.search(queries, 1, ROWS), exact).mean() == 1.0
    assert len(del_me) == 50


def test_flann_is_tried_as_the_paper_set_it():
    made = Flann("any", {})
    made._vectors = random_table(ROWS)
    assert {1, 39} <= set(made.settings(1))
    assert {1, 39, 200} <= set(made.settings(200))


def test_the_autotuned_index_says_what_it_chose():
    pytest.importorskip("cv2")
    made = CONTENDERS["FLANN autotuned"].make()
    made.build(random_table(ROWS))
    assert made.note.startswith("chose a scan and")


@pytest.mark.parametrize("first", [1, 7, 100])
def test_efforts_climb_in_small_steps(first):
    steps = efforts(first, 10_000, extra=(39, 20_000))
    assert steps[0] == first if first < 39 else 39
    assert steps[-1] == 10_000
    assert all(b <= max(a + 1, np.ceil(a * STEP)) for a, b in pairwise(steps) if a >= first)
    assert 39 in steps


def test_a_missing_library_names_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert CONTENDERS["FLANN autotuned"].missing == "not installed: pip install opencv-python-headless"
