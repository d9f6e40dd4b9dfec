"""A target recall: tuned to, checked in use, tuned to again when the queries drift."""

import json
import logging

import numpy as np
import pytest

from wolpertinger.index import ExactIndex, Store, TunedIndex, monitor, tune, tuned, tuning_run
from wolpertinger.index.faiss import FaissIndex
from wolpertinger.index.measure import recall

DIM, K = 8, 10


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(2_000, DIM)).astype(np.float32)


def asked(n, seed, scale=1.0):
    return (scale * np.random.default_rng(seed).normal(size=(n, DIM))).astype(np.float32)


@pytest.fixture(autouse=True)
def times(monkeypatch):
    """Pretended times, so that nothing depends on the machine: the scan is slow, the least effort the fastest."""

    def time(_, index, repeats=3):
        if isinstance(index, ExactIndex):
            return 1.0
        effort = index.effort
        return 0.02 * effort.overfetch + 1e-4 * (effort.nprobe or effort.ef_search or 1)

    monkeypatch.setattr(tuning_run.TuningRun, "_time", time)
    monkeypatch.setattr(tune, "MAX_TUNING_QUERIES", 200)


def always_checked(index):
    for state in index._states.values():
        state.every = state.countdown = 0
    return index


def test_it_reaches_the_recall_it_was_given(vectors):
    index = TunedIndex(vectors, "medium", recipe="IVF32,Flat")
    assert index.recall == 0.9
    queries = asked(200, 1)
    found = index.search(queries, K)
    assert recall(vectors, queries, found, ExactIndex(vectors).search(queries, K)).mean() > 0.88
    (stats,) = index.stats()
    assert (stats.k, stats.target_recall, stats.tunings) == (K, 0.9, 1)
    assert stats.index.startswith("IVF32,Flat (nprobe ")


def test_nothing_is_tuned_before_the_first_search(vectors):
    index = TunedIndex(vectors, 0.9)
    assert index.stats() == []
    assert index.tunings == {}
    assert index.search(np.empty((0, DIM)), K).shape == (0, K)
    assert index.stats() == []


def test_every_k_has_its_own_setting(vectors):
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    for k in (1, 500, 1):
        index.search(asked(20, 1), k)
    assert [stats.k for stats in index.stats()] == [1, 500]
    assert index.tunings.keys() == {1, 500}
    efforts = [index._states[k].index.effort.nprobe for k in (1, 500)]
    assert efforts[0] < efforts[1]


def test_a_look_at_another_k_is_a_scan_and_tunes_nothing(vectors, monkeypatch):
    monkeypatch.setattr(monitor, "TYPICAL_TUNING", 1e9)
    index = TunedIndex(vectors, 0.5, recipe="IVF32,Flat")
    index.search(asked(1, 0), K)  # the first k is tuned for, whatever it is
    index._full_tuning_seconds = 0.0  # as after loading
    for batch in (1, monitor.FEW_QUERIES):
        found = index.search(asked(batch, 1), 500)
        np.testing.assert_array_equal(found, ExactIndex(vectors).search(asked(batch, 1), 500))
    assert [stats.k for stats in index.stats()] == [K]
    index.search(asked(monitor.FEW_QUERIES + 1, 1), 500)
    assert [stats.k for stats in index.stats()] == [K, 500]


def test_scans_for_another_k_end_when_they_have_taken_as_long_as_tuning(vectors, monkeypatch):
    index = TunedIndex(vectors, 0.5, recipe="IVF32,Flat")
    index.search(asked(1, 0), K)
    index._full_tuning_seconds = 10.0
    now = [0.0]
    monkeypatch.setattr(monitor.time, "perf_counter", lambda: now.append(now[-1] + 2.5) or now[-1])  # 2.5 s a scan
    for looks in range(1, 6):
        index.search(asked(1, looks), 500)
        assert len(index.stats()) == (1 if looks <= 4 else 2)


def test_a_recipe_that_cannot_be_built_is_an_error_at_once(vectors):
    with pytest.raises(ValueError, match="index='Nope' is not a recipe"):
        TunedIndex(vectors, 0.9, recipe="Nope")


def test_queries_that_drift_away_make_it_tune_anew_and_say_so(caplog):
    """Half of the rows lie in tight clumps, where one list has all neighbours, the others in a cloud of many lists."""
    rng = np.random.default_rng(0)
    centres = 20 + 10 * rng.normal(size=(16, DIM))
    clumps = np.repeat(centres, 64, axis=0) + 0.01 * rng.normal(size=(1_024, DIM))
    vectors = np.concatenate([clumps, rng.normal(size=(1_024, DIM))]).astype(np.float32)
    index = TunedIndex(vectors, 0.95, recipe="IVF32,Flat")
    easy, hard = clumps[rng.integers(1_024, size=200)], rng.normal(size=(monitor.MIN_CHECKED + 8, DIM))
    index.tune(easy, 32)
    always_checked(index)
    before = index._states[32].index.effort
    with caplog.at_level(logging.WARNING, "wolpertinger"):
        for query in easy[: monitor.MIN_CHECKED + 8]:
            index.search(query[None], 32)
        assert not caplog.records
        assert index.stats()[0].recall >= 0.95
        index._queries.asked = 0  # as if that were long ago
        index.tuning_seconds = 0.0
        index._states[32].window.clear()
        for query in hard:
            always_checked(index).search(query[None], 32)
    (record,) = caplog.records
    assert "recall at k=32 fell to 0." in record.getMessage()
    assert "the target is 0.95; tuned again on the last" in record.getMessage()
    (stats,) = index.stats()
    assert stats.tunings == 2
    after = index._states[32].index
    assert after.effort != before
    found = after.search(hard, 32)
    assert recall(vectors, hard, found, ExactIndex(vectors).search(hard, 32)).mean() >= 0.9


def test_tuning_anew_waits_until_tuning_has_taken_a_tenth_of_the_time(vectors, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(tuned.time, "perf_counter", lambda: now[0])
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    index.search(asked(1, 0), K)
    index.tuning_seconds = 5.0
    for now[0], may in ((0.0, False), (49.0, False), (51.0, True)):
        assert index._may_tune() == may


def test_checks_are_counted_and_averaged(vectors):
    index = TunedIndex(vectors, 0.7, recipe="IVF32,Flat")
    index.search(asked(1, 0), K)
    always_checked(index)
    assert index.stats()[0].recall is None
    shares = []
    for seed in range(20):
        query = asked(1, seed)
        found = index.search(query, K)
        shares.append(recall(vectors, query, found, ExactIndex(vectors).search(query, K))[0])
    (stats,) = index.stats()
    assert stats.checked == 20
    assert stats.recall == pytest.approx(np.mean(shares))


def test_few_lookups_are_checked(vectors):
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    index.search(asked(1, 0), K)
    every = index._states[K].every
    assert every == pytest.approx(tuned.SINGLE_SCAN_FACTOR / tuned.CHECKED_SHARE / index.tunings[K].chosen.seconds)
    for _ in range(10):
        index.search(asked(int(every / 3), 1), K)
    assert 2 <= index.stats()[0].checked <= 3


def test_an_exact_choice_is_never_checked(vectors, monkeypatch):
    index = TunedIndex(vectors, 1.0)
    index.search(asked(64, 0), K)
    monkeypatch.setattr(tuned, "recall_of", None)
    for _ in range(50):
        index.search(asked(64, 0), K)
    (stats,) = index.stats()
    assert (stats.recall, stats.checked, stats.tunings, stats.index) == (1.0, 0, 1, "exact")


def test_it_is_tuned_once_more_when_it_knows_what_is_asked(vectors, monkeypatch, caplog):
    for module in (tuned, monitor):
        monkeypatch.setattr(module, "REMEMBERED_QUERIES", 100)
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    monkeypatch.setattr("wolpertinger.index.faiss.build", None)  # nothing is built for it
    for seed in range(9):
        index.search(asked(10, seed), K)
    assert index.stats()[0].tunings == 1
    for seed in range(20):
        index.search(asked(10, seed), K)
    assert index.stats()[0].tunings == 2
    assert index._states[K].live
    assert not caplog.records  # nothing had fallen


def test_tuned_on_given_queries(vectors):
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    tuning = index.tune(asked(100, 1), K)
    assert tuning is index.tunings[K]
    assert tuning.recipe == "IVF32,Flat"
    assert index.stats()[0].tunings == 1
    with pytest.raises(ValueError, match="queries are empty: give at least one to tune on"):
        index.tune(np.empty((0, DIM)), K)
    with pytest.raises(ValueError, match="k=2001 is out of range"):
        index.tune(asked(1, 1), 2_001)
    assert len(index._queries.last) == 100


@pytest.mark.parametrize("recipe", [None, "IVF4,Flat"])
def test_a_small_table_can_be_tuned_too(vectors, recipe):
    """It was a KeyError."""
    index = TunedIndex(vectors[:50], 0.9, recipe=recipe)
    tuning = index.tune(asked(5, 1), np.int64(K))
    assert (tuning.recipe, len(tuning.trials)) == ("exact", 1)
    assert index.stats()[0].index == "exact"


def test_rows_come_and_go(vectors):
    store = Store(vectors)
    index = TunedIndex(store, 0.9, recipe="IVF32,Flat")
    for k in (1, K):
        index.search(asked(5, 1), k)
    always_checked(index)
    built = index._tuner.built["IVF32,Flat"]._faiss
    for seed in range(2, 5):
        rows = asked(3, seed)
        new = store.add(rows)
        for k in (1, K):
            np.testing.assert_array_equal(index.search(rows, k)[:, 0], new)
        store.remove(new[:1])
        assert not np.isin(index.search(rows, K), new[0]).any()
    assert index.built["IVF32,Flat"].dtype == np.uint8
    assert index._tuner.built["IVF32,Flat"]._faiss is built
    assert (built.ntotal, store.size) == (2_000, 2_009)  # the others are scanned
    assert index.n == 2_006
    assert all(stats.tunings == 1 for stats in index.stats())


def restore(index, store):
    """Through what a file holds."""
    other = TunedIndex(store, index.recall, recipe=index.recipe, built=index.built)
    other.state = json.loads(json.dumps(index.state))
    return other


@pytest.mark.parametrize("recipe", [None, "IVF32,PQ8x4fs", "HNSW16"])
def test_another_index_goes_on_from_its_state(vectors, recipe, monkeypatch):
    store = Store(vectors)
    index = TunedIndex(store, 0.9, recipe=recipe)
    queries = asked(20, 1)
    expected = {k: index.search(queries, k) for k in (1, K)}
    monkeypatch.setattr("wolpertinger.index.faiss.build", None)
    monkeypatch.setattr(tune.Tuner, "tune", None)
    other = restore(index, store)
    for k, ids in expected.items():
        np.testing.assert_array_equal(other.search(queries, k), ids)
    assert [h.index for h in other.stats()] == [h.index for h in index.stats()]
    assert other.state == index.state


def test_what_was_tuned_for_more_rows_than_are_left_is_not_kept(vectors):
    """It made the file unreadable."""
    store = Store(vectors)
    index = TunedIndex(store, 0.9, recipe="IVF32,Flat")
    for k in (K, 1_500):
        index.search(asked(5, 1), k)
    store.remove(np.arange(1_000))
    assert index.state.keys() == {str(K)}
    assert [stats.k for stats in restore(index, store).stats()] == [K]


def test_a_state_that_does_not_fit_is_an_error(vectors):
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    index.search(asked(5, 1), K)
    other = TunedIndex(vectors, 0.9)
    with pytest.raises(KeyError, match="IVF32,Flat"):
        other.state = index.state


def test_faiss_is_what_was_chosen(vectors):
    index = TunedIndex(vectors, 0.7)
    index.search(asked(5, 1), K)
    assert isinstance(index._states[K].index, FaissIndex)
    assert index.built.keys() == {index._states[K].recipe}


def test_what_is_not_worth_its_memory_is_forgotten(vectors):
    index = TunedIndex(vectors, 0.9)
    index.search(asked(64, 0), K)
    tuning = index.tunings[K]
    assert index._tuner.built.keys() <= tuning.contenders | {tuning.recipe}
    assert len(tuning.contenders) < len({trial.recipe for trial in tuning.trials})
    index.search(asked(64, 0), 1)
    assert index.built.keys() == {stats.index.split(" ")[0] for stats in index.stats()} - {"exact"}


def test_a_restored_index_is_kept_when_another_k_is_tuned(vectors):
    first = TunedIndex(vectors, 0.9)
    first.search(asked(64, 0), K)
    second = TunedIndex(vectors, 0.9, built=first.built)
    second.state = first.state
    second.search(asked(64, 0), 1)
    assert first.built.keys() <= second.built.keys()
    np.testing.assert_array_equal(first.search(asked(9, 1), K), second.search(asked(9, 1), K))


def test_the_check_compares_a_lookup_with_its_own_query(vectors):
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    queries = asked(40, 3)
    index.search(queries, K)
    always_checked(index)
    index._states[K].window.clear()
    index._states[K].index = ExactIndex(vectors)  # always right, so every check must find 1
    for _ in range(20):
        index.search(queries, K)
    assert set(index._states[K].window) == {1.0}


def test_the_live_tuning_is_on_what_was_asked(vectors, monkeypatch):
    for module in (tuned, monitor):
        monkeypatch.setattr(module, "REMEMBERED_QUERIES", 100)
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    tuned_on = []
    tune_now = index._tuner.tune
    monkeypatch.setattr(index._tuner, "tune", lambda q, **kw: (tuned_on.append(q.copy()), tune_now(q, **kw))[1])
    batches = [asked(25, seed, scale=7.0) for seed in range(5)]
    for batch in batches:
        index.search(batch, K)
    first, live = tuned_on
    assert len(first) == 25 + 100  # the first batch, and likely ones
    np.testing.assert_array_equal(np.sort(live, axis=0), np.sort(np.concatenate(batches[:4]), axis=0))


def test_a_table_that_grew_is_tuned_again(vectors):
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    index.search(asked(5, 0), K)
    index.store.add(vectors[:1_500])
    index.search(asked(5, 0), K)
    assert index.stats()[0].tunings == 1
    index.store.add(vectors)
    index.search(asked(5, 0), K)
    assert index.stats()[0].tunings == 2


def test_nearly_the_same_k_shares_its_settings(vectors):
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    for k in (100, 95, 109, 120):
        assert index.search(asked(20, 0), k).shape == (20, k)
    assert [stats.k for stats in index.stats()] == [100, 120]


def test_codes_that_cannot_skip_removed_rows_give_way(vectors):
    index = TunedIndex(vectors, 0.7, recipe="PQ8x4fs")
    index.search(asked(5, 0), 1)
    assert index.stats()[0].index.startswith("PQ8x4fs")
    index.store.remove(np.arange(200))
    found = index.search(asked(50, 1), 1)
    np.testing.assert_array_equal(found, ExactIndex(index.store).search(asked(50, 1), 1))
    assert index.stats()[0].index == "exact"


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": 0},
        {"every": float("nan")},
        {"every": 0},
        {"checked": -1},
        {"checked": "x"},
        {"tunings": None},
        {"effort": {"overfetch": 0}},
        {"effort": {"nprobe": -3}},
        {"effort": {"ef_search": "a"}},
    ],
)
def test_a_state_that_cannot_be_is_refused(vectors, wrong):
    index = TunedIndex(vectors, 0.9, recipe="IVF32,Flat")
    index.search(asked(5, 0), K)
    state = index.state
    state[str(K)].update(wrong)
    with pytest.raises((ValueError, TypeError)):
        index.state = state
