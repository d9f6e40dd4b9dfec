"""Tables of vectors: what is accepted, that nothing is copied, what comes and goes, files."""

import io
import json
import pickle
import tracemalloc

import numpy as np
import pytest
from gymnasium import spaces

from wolpertinger import CheckpointError, archive
from wolpertinger.actions import ActionTable
from wolpertinger.actions.table import KIND
from wolpertinger.index import ExactIndex, tune, tuning_run


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)


def test_float32_is_used_without_a_copy_and_read_only(vectors):
    actions = ActionTable(vectors)
    assert actions.space == spaces.Discrete(50)
    assert np.shares_memory(actions.vectors, vectors)
    assert vectors.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        actions.vectors[0] = 0


def test_a_memory_map_is_used_without_a_copy(tmp_path):
    path = tmp_path / "vectors.npy"
    np.save(path, np.random.default_rng(0).normal(size=(200_000, 20)).astype(np.float32))
    mapped = np.load(path, mmap_mode="r")
    tracemalloc.start()
    actions = ActionTable(mapped)
    assert len(actions.sha256) == 64
    assert actions.low.shape == actions.high.shape == (20,)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.shares_memory(actions.vectors, mapped)
    assert peak < mapped.nbytes


def test_another_type_is_copied_once(tmp_path):
    path = tmp_path / "vectors.npy"
    np.save(path, np.random.default_rng(0).normal(size=(200_000, 20)))
    mapped = np.load(path, mmap_mode="r")
    tracemalloc.start()
    actions = ActionTable(mapped)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    one_copy = mapped.size * 4
    assert one_copy <= peak < 1.7 * one_copy
    np.testing.assert_array_equal(actions.vectors, mapped.astype(np.float32))


@pytest.mark.parametrize("given", [[[0, 1], [2, 3]], np.asfortranarray([[0.0, 1.0], [2.0, 3.0]], np.float32)])
def test_array_likes_are_accepted(given):
    np.testing.assert_array_equal(ActionTable(given).nearest([[2.0, 2.0]], 2), [[1, 0]])


@pytest.mark.parametrize("given", [None, [["a", "b"]], [[None, 1.0]], [[1j]]])
def test_what_is_not_real_numbers_is_an_error(given):
    with pytest.raises(TypeError, match=r"vectors are of type .*: give a 2-D array of real numbers"):
        ActionTable(given)


@pytest.mark.parametrize("given", [[], [[]], [1.0, 2.0], np.zeros((0, 4)), np.zeros((2, 2, 2))])
def test_the_wrong_shape_is_an_error(given):
    with pytest.raises(ValueError, match=r"vectors have shape .*: give \(n, dim\)"):
        ActionTable(given)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_rows_that_are_not_finite_are_listed(vectors, bad):
    given = vectors.astype(np.float64)
    given[[4, 40], 1] = bad
    with pytest.raises(ValueError, match=r"vectors must be finite float32 numbers: 2 of 50 rows are not \(row 4, 40\)"):
        ActionTable(given)


@pytest.mark.parametrize("index", ["exact", "auto", None, "HNSW8"])
def test_recall_is_met_by_the_scan_of_a_small_table(vectors, index):
    actions = ActionTable(vectors, index=index, recall=0.99)
    expected = np.argsort(((vectors - vectors[7]) ** 2).sum(axis=1))[None, :9]
    np.testing.assert_array_equal(actions.nearest(vectors[[7]], 9), expected)


@pytest.mark.parametrize("recall", [0, -0.5, 1.01, float("nan"), "0.9", "FAST"])
def test_recall_outside_0_to_1_is_an_error(vectors, recall):
    for index in (None, "exact", "auto", "Flat"):
        with pytest.raises(ValueError, match=rf"recall={recall!r}: give a share of the true neighbours in \(0, 1\]"):
            ActionTable(vectors, index=index, recall=recall)


@pytest.mark.parametrize("recall", [[0.9], True])
def test_recall_that_is_no_number_is_an_error(vectors, recall):
    with pytest.raises(TypeError, match="is not a number: give a share"):
        ActionTable(vectors, recall=recall)


def test_an_unknown_index_is_an_error(vectors):
    with pytest.raises(ValueError, match="index='fastest' is not a recipe FAISS can build"):
        ActionTable(vectors, index="fastest")


def test_the_fingerprint_changes_with_the_vectors_and_their_shape(vectors):
    changed = vectors.copy()
    changed[-1, -1] += 1
    prints = {ActionTable(v).sha256 for v in (vectors, changed, vectors.reshape(25, 6), vectors[:49])}
    assert len(prints) == 4


@pytest.fixture
def approximate(monkeypatch):
    """However small a table and fast its scan, an approximate index is chosen for it."""

    def time(_, index, repeats=3):
        return 1e6 if isinstance(index, ExactIndex) else index.effort.overfetch + (index.effort.nprobe or 0)

    monkeypatch.setattr(tune, "EXACT_BELOW", 1)
    monkeypatch.setattr(tune, "MAX_TUNING_QUERIES", 32)
    monkeypatch.setattr(tuning_run.TuningRun, "_time", time)


def no_building(monkeypatch):
    """From now on, an index that is built or tuned is an error."""
    monkeypatch.setattr("wolpertinger.index.faiss.build", None)
    monkeypatch.setattr(tune.Tuner, "tune", None)


@pytest.mark.parametrize(
    ("options", "index", "recall", "text"),
    [
        ({}, "exact", None, "ActionTable(n=50, dim=3, index='exact')"),
        ({"index": "exact"}, "exact", None, "ActionTable(n=50, dim=3, index='exact')"),
        ({"index": "IVF4,Flat"}, "IVF4,Flat", None, "ActionTable(n=50, dim=3, index='IVF4,Flat')"),
        ({"index": "auto"}, "auto", 0.99, "ActionTable(n=50, dim=3, index='auto', recall=0.99)"),
        ({"recall": "medium"}, "auto", 0.9, "ActionTable(n=50, dim=3, index='auto', recall=0.9)"),
        ({"index": "HNSW8", "recall": 0.7}, "HNSW8", 0.7, "ActionTable(n=50, dim=3, index='HNSW8', recall=0.7)"),
    ],
)
def test_what_a_table_says_of_itself(vectors, options, index, recall, text):
    actions = ActionTable(vectors, **options)
    assert (actions.index, actions.recall, repr(actions)) == (index, recall, text)
    assert actions.health == []


def test_health_and_tuning_are_those_of_the_promise(vectors):
    actions = ActionTable(vectors, recall=0.9)
    actions.nearest(vectors[:2], 3)
    (health,) = actions.health
    assert (health.k, health.target_recall, health.recall, health.index) == (3, 0.9, 1.0, "exact")
    assert actions.tune(vectors[:9], 4).recipe == "exact"
    assert [health.k for health in actions.health] == [3, 4]
    with pytest.raises(ValueError, match=r"index='exact' promises no recall: make the table with recall=0\.99"):
        ActionTable(vectors).tune(vectors, 3)


def test_added_actions_follow_the_others(vectors):
    actions = ActionTable(vectors)
    before = actions.sha256, actions.space, actions.low, actions.high
    new = actions.add([[9.0, 0.0, -9.0], [8.0, 0.0, 0.0]])
    np.testing.assert_array_equal(new, [50, 51])
    assert (actions.n, actions.space) == (52, spaces.Discrete(52))
    np.testing.assert_array_equal(actions.ids, np.arange(52))
    np.testing.assert_array_equal(actions.vectors[:50], vectors)
    np.testing.assert_array_equal(actions.embed(new), [[9, 0, -9], [8, 0, 0]])
    np.testing.assert_array_equal(actions.embed(51), [8, 0, 0])
    assert (actions.low[2], actions.high[0]) == (-9, 9)
    np.testing.assert_array_equal(actions.nearest([[9.0, 0.0, -8.0]], 1), [[50]])
    assert actions.sha256 == ActionTable(actions.vectors).sha256 != before[0]
    actions.remove(new)
    np.testing.assert_array_equal([actions.low, actions.high], before[2:])


def test_removed_actions_are_gone_and_the_others_keep_their_ids(vectors):
    actions = ActionTable(vectors)
    whole = actions.sha256
    highest = int(vectors[:, 0].argmax())
    actions.remove(highest)
    actions.remove([1, 2] if highest not in (1, 2) else [3, 4])
    assert (actions.n, actions.space) == (47, spaces.Discrete(50))
    assert highest not in actions.ids
    assert actions.high[0] == vectors[actions.ids, 0].max() < vectors[highest, 0]
    assert highest not in actions.nearest(vectors[[highest]], 47)
    np.testing.assert_array_equal(actions.embed(highest), vectors[highest])  # replay buffers still hold it
    assert actions.sha256 != whole
    with pytest.raises(ValueError, match=f"id {highest} was removed already"):
        actions.remove(highest)
    assert actions.add(vectors[:1]).tolist() == [50]


def test_samples_are_uniform_over_what_is_there(vectors):
    actions = ActionTable(vectors[:6])
    drawn = actions.sample(np.random.default_rng(0), 600)
    np.testing.assert_array_equal(drawn, np.random.default_rng(0).integers(6, size=600))
    actions.remove([0, 3])
    drawn = actions.sample(np.random.default_rng(0), 4_000)
    ids, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(ids, [1, 2, 4, 5])
    assert (abs(counts - 1_000) < 150).all()  # five standard deviations


@pytest.mark.parametrize("options", [{}, {"index": "HNSW8"}, {"index": "IVF4,SQ8", "recall": 0.7}, {"recall": 0.7}])
@pytest.mark.parametrize("way", ["file", "open file", "pickle", "light"])
def test_a_table_comes_back_without_building_anything(vectors, options, way, tmp_path, monkeypatch, approximate):
    actions = ActionTable(vectors, build_seconds=33, **options)
    queries = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    actions.nearest(queries, 4)
    actions.remove([3, 7])
    actions.add(queries[:2])
    expected = actions.nearest(queries, 4)
    assert expected[0, 0] == 50
    no_building(monkeypatch)
    if way == "pickle":
        loaded = pickle.loads(pickle.dumps(actions))
    elif way == "open file":
        actions.save(file := io.BytesIO())
        loaded = ActionTable.load(file)
    elif way == "file":
        actions.save(tmp_path / "table.zip")
        loaded = ActionTable.load(tmp_path / "table.zip")
    else:
        actions.save(tmp_path / "table.zip", exclude=["vectors"])
        np.save(tmp_path / "vectors.npy", actions.vectors)
        mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
        loaded = ActionTable.load(tmp_path / "table.zip", vectors=mapped)
        assert np.shares_memory(loaded.vectors, mapped)
    np.testing.assert_array_equal(loaded.nearest(queries, 4), expected)
    np.testing.assert_array_equal(loaded.ids, actions.ids)
    assert (repr(loaded), loaded.sha256, loaded.health) == (repr(actions), actions.sha256, actions.health)
    assert loaded.space == actions.space
    if "recall" in options:
        assert loaded._index.build_seconds == 33
    assert loaded.add([[0.0, 0.0, 0.0]]).tolist() == [52]
    loaded.nearest(queries, 4)


def test_a_table_that_was_never_searched_comes_back(vectors):
    loaded = pickle.loads(pickle.dumps(ActionTable(vectors, recall=0.9)))
    assert (loaded.recall, loaded.health) == (0.9, [])
    np.testing.assert_array_equal(loaded.nearest(vectors[:3], 1)[:, 0], [0, 1, 2])


def test_vectors_are_asked_for_and_must_be_the_right_ones(vectors, tmp_path):
    ActionTable(vectors, index="Flat").save(path := tmp_path / "light.zip", exclude=["vectors"])
    assert path.stat().st_size < 8_000
    with pytest.raises(CheckpointError, match="the file holds no vectors: give vectors= to load"):
        ActionTable.load(path)
    with pytest.raises(CheckpointError, match="the vectors are 49 x 3, the table was saved with 50 x 3"):
        ActionTable.load(path, vectors=vectors[:49])
    with pytest.raises(CheckpointError, match=r"given vectors have SHA-256 .*, the table was saved with"):
        ActionTable.load(path, vectors=vectors + 1)
    with pytest.raises(CheckpointError, match="does not fit: ValueError: vectors must be finite"):
        ActionTable.load(path, vectors=vectors * np.nan)
    assert ActionTable.load(path, vectors=vectors).n == 50


def test_what_else_to_exclude_is_an_error(vectors, tmp_path):
    with pytest.raises(ValueError, match="unknown index: exclude takes vectors"):
        ActionTable(vectors).save(tmp_path / "table.zip", exclude=["index"])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def saved(vectors, tmp_path, approximate):
    actions = ActionTable(vectors, index="IVF4,Flat", recall=0.7)
    actions.nearest(vectors[:3], 2)
    actions.remove([3])
    actions.save(tmp_path / "table.zip")
    return tmp_path / "table.zip"


def test_a_damaged_file_is_refused(saved):
    whole = saved.read_bytes()
    for content in archive.read(saved, KIND).values():
        for position in (start := whole.index(content), start + len(content) // 2, start + len(content) - 1):
            saved.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
            with pytest.raises(CheckpointError, match=r"table\.zip.*(damaged|manifest)"):
                ActionTable.load(saved)
    saved.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"table\.zip is damaged"):
        ActionTable.load(saved)


def with_config(**changes):
    return lambda files: {**files, "table.json": json.dumps({**json.loads(files["table.json"]), **changes}).encode()}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda files: {**files, "table.json": b"[]"}, "does not fit: AttributeError"),
        (lambda files: {**files, "table.json": b"[" * 100_000}, "does not fit: RecursionError"),
        (lambda files: {**files, "index-0.faiss": b"nonsense"}, "the saved index 'IVF4,Flat' cannot be read"),
        (lambda files: {**files, "vectors.safetensors": b""}, "does not fit: SafetensorError"),
        (lambda files: {**files, "removed.safetensors": files["vectors.safetensors"]}, "does not fit: KeyError"),
        (with_config(size=51), "the vectors are 50 x 3, the table was saved with 51 x 3"),
        (with_config(recall=2), "does not fit: ValueError: recall=2"),
        (with_config(indexes=["IVF4,Flat", "Flat"]), "does not fit: KeyError"),
        (with_config(tuned={"2": {}}), "does not fit: KeyError"),
        (with_config(tuned={"2": {"recipe": "Flat", "effort": {}}}), "does not fit: KeyError: 'Flat'"),
        (with_config(tuned={"2": {"recipe": "IVF4,Flat", "effort": {"evil": 1}}}), "does not fit: TypeError"),
        (with_config(tuned={"99": {"recipe": "exact", "effort": {}, "every": 1}}), "does not fit"),
    ],
)
def test_a_file_with_other_content_is_refused(saved, change, match):
    archive.write(saved, KIND, change(archive.read(saved, KIND)))
    with pytest.raises(CheckpointError, match=match):
        ActionTable.load(saved)


def test_another_kind_of_file_is_refused(tmp_path):
    archive.write(tmp_path / "other.zip", "wolpertinger agent", {})
    with pytest.raises(CheckpointError, match=f"is a 'wolpertinger agent', a '{KIND}' was expected"):
        ActionTable.load(tmp_path / "other.zip")


def test_a_light_file_keeps_what_was_added_behind_a_memory_map(tmp_path):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32))
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    actions = ActionTable(mapped, index="IVF4,Flat")
    actions.add([[9.0, 9.0, 9.0]])
    actions.remove([2])
    actions.save(tmp_path / "table.zip", exclude=["vectors"])
    loaded = ActionTable.load(tmp_path / "table.zip", vectors=mapped)
    assert (loaded.n, loaded.space.n, loaded.sha256) == (40, 41, actions.sha256)
    assert loaded.nearest([[9.0, 9.0, 9.0]], 1) == [[40]]


def test_what_was_removed_is_not_held_and_not_listed(vectors):
    actions = ActionTable(vectors[:24])
    actions.remove([3, 23])
    assert actions.holds([[3, 4], [23, 24]]).tolist() == [[False, True], [False, False]]
    for size in (1, 5, 24, 100):
        np.testing.assert_array_equal(np.concatenate(list(actions.blocks(size))), actions.ids)


def test_a_promise_says_of_its_lookups_what_the_log_shows(vectors):
    assert ActionTable(vectors).stats(3) == {}
    actions = ActionTable(vectors, recall=0.9)
    assert actions.stats(3) == {"tuning_seconds": 0.0}
    actions.nearest(vectors[:2], 3)
    found = actions.stats(3)
    assert found.pop("tuning_seconds") == actions.tuning_seconds > 0
    assert found == {"checked": 0, "tunings": 1, "index": "exact", "recall": 1.0}
    assert actions.stats(4).keys() == {"tuning_seconds"}  # nothing was looked up for this k


def test_some_of_a_table_keep_their_ids(vectors):
    table = ActionTable(vectors)
    table.remove([3])
    some = table.only(np.array([1, 3, 5]))
    assert some.n == 2
    assert sorted(some.nearest(vectors[:1], 2)[0]) == [1, 5]
    np.testing.assert_array_equal(some.embed([1, 5]), table.embed([1, 5]))
    assert table.n == len(vectors) - 1
