"""The fastest index that reaches a recall. Times are the machine's: no test depends on how long anything takes."""

import numpy as np
import pytest

from wolpertinger.index import ExactIndex, Store, Tuner, tune, tuning_run
from wolpertinger.index.faiss import FaissIndex
from wolpertinger.index.measure import recall
from wolpertinger.index.tune import RECALLS, check_recall, recipes_for

MARGIN = 0.02  # of the recall on other queries than those it was tuned on: four standard errors and more


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).normal(size=(2_500, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def queries():
    return np.random.default_rng(1).normal(size=(300, 8)).astype(np.float32)


@pytest.fixture
def slow_scan(monkeypatch):
    """The scan seems slower than all else, which takes the longer the more it is asked to do."""

    def time(_, index, repeats=3):
        if isinstance(index, ExactIndex):
            return 1e6
        return index.effort.overfetch + (index.effort.nprobe or index.effort.ef_search or 0)

    monkeypatch.setattr(tuning_run.TuningRun, "_time", time)


@pytest.fixture
def fast_scan(monkeypatch):
    """The scan seems to take half as long as anything else."""
    monkeypatch.setattr(tuning_run.TuningRun, "_time", lambda _, index, repeats=3: 2.0 - isinstance(index, ExactIndex))


@pytest.mark.parametrize("recipe", ["IVF32,Flat", "IVF32,PQ8x4fs", "PQ8x4fs", "HNSW16", "IVF32,SQ8"])
@pytest.mark.parametrize(("k", "target"), [(1, 0.9), (100, 0.99)])
def test_the_recall_is_reached_on_other_queries(vectors, queries, recipe, k, target, slow_scan):
    tuning = Tuner(vectors, recipes=[recipe]).tune(queries, k=k, recall=target)
    assert (tuning.k, tuning.target_recall) == (k, target)
    assert tuning.chosen.keeps
    assert tuning.chosen.recall >= target
    others = np.random.default_rng(2).normal(size=(300, 8)).astype(np.float32)
    found = tuning.index.search(others, k)
    assert recall(vectors, others, found, ExactIndex(vectors).search(others, k)).mean() >= target - MARGIN


def test_a_lower_recall_takes_less_effort(vectors, queries, slow_scan):
    tuner = Tuner(vectors, recipes=["IVF32,Flat"])
    probes = [tuner.tune(queries, k=10, recall=target).index.effort.nprobe for target in ("fast", "medium", "slow")]
    assert 1 < probes[0] < probes[1] < probes[2] <= 32


def test_what_was_tried_is_reported_and_one_of_it_is_chosen(vectors, queries):
    tuning = Tuner(vectors).tune(queries, k=10, recall=0.9)
    assert [trial for trial in tuning.trials if trial.chosen] == [tuning.chosen]
    assert (tuning.chosen.recipe, tuning.chosen.setting) == (tuning.recipe, tuning.setting)
    assert tuning.chosen.keeps
    scan = tuning.trials[0]
    assert (scan.recipe, scan.recall, scan.keeps, scan.build_seconds) == ("exact", 1.0, True, 0.0)
    assert {trial.recipe for trial in tuning.trials} | tuning.skipped.keys() == {"exact", *recipes_for(2_500, 8, 10)}
    for trial in tuning.trials:
        assert 0 <= trial.recall <= 1
        assert trial.seconds > 0
        assert trial.bytes_per_vector > 0
        assert trial.keeps <= (trial.recall >= 0.9)
    expected = ExactIndex if tuning.recipe == "exact" else FaissIndex
    assert isinstance(tuning.index, expected)


def test_the_scan_is_chosen_where_it_is_fastest(vectors, queries, fast_scan):
    tuning = Tuner(vectors).tune(queries, k=10, recall=0.7)
    assert (tuning.recipe, tuning.setting) == ("exact", "")
    assert len(tuning.trials) > 1


def test_only_a_scan_has_a_recall_of_1(vectors, queries, slow_scan):
    tuning = Tuner(vectors).tune(queries, k=10, recall=1)
    assert [trial.recipe for trial in tuning.trials] == ["exact"]
    assert tuning.chosen.chosen


@pytest.mark.parametrize("recipes", [None, ["IVF4,Flat"]])
def test_a_small_table_is_scanned(vectors, queries, recipes, slow_scan):
    tuning = Tuner(vectors[: tune.EXACT_BELOW - 1], recipes=recipes).tune(queries, k=10, recall=0.7)
    assert [trial.recipe for trial in tuning.trials] == ["exact"]


def test_no_time_to_build_leaves_the_scan_and_says_why(vectors, queries, slow_scan):
    """Tables of one block were built all the same, and so was every recipe after the time was used up."""
    tuning = Tuner(vectors, build_seconds=0).tune(queries, k=10, recall=0.7)
    assert tuning.recipe == "exact"
    assert tuning.skipped.keys() == set(recipes_for(2_500, 8, 10))
    assert set(tuning.skipped.values()) == {"none of the 0 s to build in are left"}


def test_what_is_built_is_used_again(vectors, queries, slow_scan, monkeypatch):
    tuner = Tuner(vectors, recipes=["IVF32,Flat", "HNSW16"])
    tuner.tune(queries, k=10, recall=0.9)
    built = tuner.built
    assert built.keys() == {"IVF32,Flat", "HNSW16"}
    monkeypatch.setattr("wolpertinger.index.faiss.build", None)
    assert tuner.tune(queries, k=5, recall=0.7).recipe != "exact"
    assert tuner.built == built


def test_one_k_means_serves_all_that_have_as_many_lists(vectors, queries):
    tuner = Tuner(vectors, recipes=["IVF32,Flat", "IVF32,SQ8"])
    tuner.tune(queries, k=10, recall=0.9)
    flat, codes = tuner.built.values()
    np.testing.assert_array_equal(flat.centroids, codes.centroids)


def test_only_what_is_built_on_request(vectors, queries, slow_scan):
    tuner = Tuner(vectors, recipes=["IVF32,Flat", "HNSW16"])
    tuner.adopt(FaissIndex(tuner.store, "HNSW16"))
    tuning = tuner.tune(queries, k=10, recall=0.9, build=False)
    assert tuning.recipe == "HNSW16"
    assert tuning.skipped == {"IVF32,Flat": "not built, and only what is built was asked for"}


def test_a_recipe_that_cannot_be_built_is_skipped_with_the_reason(vectors, queries):
    tuning = Tuner(vectors, recipes=["IVF9999,Flat", "HNSW16"]).tune(queries, k=10, recall=0.9)
    assert tuning.skipped.keys() == {"IVF9999,Flat"}
    assert "cannot be built on 2500 vectors" in tuning.skipped["IVF9999,Flat"]


@pytest.mark.parametrize("recipe", ["PQ8x4fs", "IVF32,PQ8x4fs"])
def test_removed_rows_are_not_tuned_for(vectors, queries, recipe, slow_scan):
    store = Store(vectors)
    store.remove(np.arange(0, 2_500, 10))
    tuning = Tuner(store, recipes=[recipe]).tune(queries, k=20, recall=0.9)
    found = tuning.index.search(queries, 20)
    assert recall(store, queries, found, ExactIndex(store).search(queries, 20)).mean() >= 0.9


@pytest.mark.parametrize("k", [1, 1_000, 2_500])
def test_one_query_and_any_k_will_do(vectors, queries, k):
    tuning = Tuner(vectors, recipes=["IVF32,Flat", "PQ8x4fs", "HNSW16"]).tune(queries[:1], k=k, recall=0.9)
    assert tuning.index.search(queries[:2], k).shape == (2, k)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"queries": np.empty((0, 8))}, ValueError, "queries are empty: give at least one"),
        ({"queries": np.zeros((3, 7))}, ValueError, r"queries have shape \(3, 7\): give \(batch, 8\)"),
        ({"k": 2_501}, ValueError, "k=2501 is out of range for 2500 actions"),
        ({"recall": 0}, ValueError, r"recall=0: give a share .* in \(0, 1\], or 'slow', 'medium', 'fast'"),
        ({"recall": "quick"}, ValueError, "recall='quick': give a share"),
    ],
)
def test_bad_input_is_an_error(vectors, queries, options, error, match):
    given = {"queries": queries, "k": 10, "recall": 0.9, **options}
    with pytest.raises(error, match=match):
        Tuner(vectors, recipes=[]).tune(given.pop("queries"), **given)


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_time_that_is_none_is_an_error(vectors, seconds):
    with pytest.raises(ValueError, match=f"build_seconds={seconds}: give a number of at least 0"):
        Tuner(vectors, build_seconds=seconds)


def test_names_stand_for_the_papers_recalls():
    assert {name: check_recall(name) for name in RECALLS} == {"slow": 0.99, "medium": 0.9, "fast": 0.7}
    assert check_recall(1) == 1.0
    for bad in (True, None, [0.9]):
        with pytest.raises(TypeError, match="is not a number: give a share"):
            check_recall(bad)
    for bad in (0, -0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=rf"recall={bad}: give a share of the true neighbours in \(0, 1\]"):
            check_recall(bad)


@pytest.mark.parametrize("n", [1_000, 100_000, 2**17, 2**19, 10**7])
@pytest.mark.parametrize("dim", [1, 3, 100, 101])
def test_recipes_are_few_and_a_graph_is_for_few_neighbours(n, dim):
    few, many = recipes_for(n, dim, 10), recipes_for(n, dim, 10_000)
    assert len(few) == len(set(few)) <= 9
    assert "HNSW16" in few
    assert "HNSW16" not in many


def test_many_lists_are_found_by_codes_and_very_many_by_a_graph():
    """A few centroids are compared as fast as codes, and of few numbers there are few codes."""
    files = [recipe.removesuffix(",PQ8x4fs") for recipe in recipes_for(10**7, 8, 1)[:4]]
    assert files == ["IVF4096(PQ8x4fs)", "IVF8192(PQ8x4fs)", "IVF2048(PQ8x4fs)", "IVF16384_HNSW32"]
    assert [recipe for recipe in recipes_for(100_000, 8, 1) if "(" in recipe] == ["IVF1024(PQ8x4fs),PQ8x4fs"]
    assert not any("(" in recipe for recipe in recipes_for(10**7, 7, 1))


@pytest.mark.parametrize(
    "recipe", ["PQ8x4fs,RFlat", "IVF32,PQ4x4fs,RFlat", "HNSW16_SQ4", "IVF32,SQ8", "PCA4,IVF32,Flat"]
)
@pytest.mark.parametrize("k", [1, 50])
def test_the_recall_that_is_claimed_is_that_of_the_search_itself(vectors, queries, recipe, k, slow_scan):
    tuning = Tuner(vectors, recipes=[recipe]).tune(queries, k=k, recall=0.8)
    exact = ExactIndex(vectors).search(queries, k)
    found = recall(vectors, queries, tuning.index.search(queries, k), exact).mean()
    assert tuning.chosen.recall == pytest.approx(found)
    assert found >= 0.8


def test_a_few_queries_that_all_succeed_prove_little(vectors, queries, slow_scan):
    tuner = Tuner(vectors, recipes=["IVF32,Flat"])
    few, many = (tuner.tune(queries[:n], k=1, recall=0.99) for n in (5, 300))
    assert few.recipe == "exact"
    assert many.recipe == "IVF32,Flat"


def test_codes_that_cannot_skip_removed_rows_are_not_tried(vectors, queries, slow_scan):
    store = Store(vectors)
    tuner = Tuner(store, recipes=["PQ8x4fs", "IVF32,PQ8x4fs"])
    tuner.tune(queries, k=1, recall=0.7)
    store.remove(np.arange(100))
    tuning = tuner.tune(queries, k=1, recall=0.7)
    assert tuning.skipped == {"PQ8x4fs": "it cannot skip the rows that were removed"}
    assert tuning.recipe == "IVF32,PQ8x4fs"


def test_what_is_forgotten_is_built_again(vectors, queries, slow_scan):
    tuner = Tuner(vectors, recipes=["IVF32,Flat", "HNSW16"])
    tuner.tune(queries, k=5, recall=0.7)
    tuner.keep({"HNSW16", "never built"})
    assert tuner.built.keys() == {"HNSW16"}
    assert {trial.recipe for trial in tuner.tune(queries, k=5, recall=0.7).trials} == {"exact", "IVF32,Flat", "HNSW16"}
