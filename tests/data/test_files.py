import gc
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.logs import as_lists, changed, make, small
from wolpertinger import LogError, Transitions
from wolpertinger.data import files


def write(path, columns, **options):
    pq.write_table(pa.table(as_lists(columns)), path, **options)
    return path


def same(log, other):
    for name in small():
        np.testing.assert_array_equal(log[name], other[name])
    return True


def test_a_log_is_the_same_from_pandas_arrow_and_parquet(tmp_path):
    expected, columns = make(), as_lists(small())
    assert same(Transitions.from_pandas(pd.DataFrame(columns)), expected)
    assert same(Transitions.from_arrow(pa.table(columns)), expected)
    assert same(Transitions.read(write(tmp_path / "log.parquet", small())), expected)
    assert same(Transitions.read(str(tmp_path / "log.parquet")), expected)


def test_a_folder_is_one_log_in_the_order_of_its_files_names(tmp_path):
    for number, part in enumerate((slice(0, 5), slice(5, 12))):
        write(tmp_path / f"{number}.parquet", {name: column[part] for name, column in small().items()})
    assert same(Transitions.read(tmp_path), make())


def test_columns_have_names_of_the_users_own(tmp_path):
    columns = small(observation=None, reward=None, clicks=np.arange(12.0), x_0=np.arange(12.0), x_1=np.ones(12))
    log = Transitions.read(write(tmp_path / "log.parquet", columns), {"reward": "clicks", "observation": "x"})
    np.testing.assert_array_equal(log["observation"], np.stack([np.arange(12.0), np.ones(12)], axis=1))
    one = small(observation=None, state_0=np.arange(12))
    assert Transitions.from_arrow(pa.table(as_lists(one)), {"observation": "state_0"})["observation"].ndim == 1


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)])
def test_every_kind_of_list_is_read(kind):
    columns = as_lists(small())
    columns["observation"] = pa.array([row.tolist() for row in columns["observation"]], kind)
    assert same(Transitions.from_arrow(pa.table(columns)), make())


def test_allowed_actions_and_names_of_episodes_are_read(tmp_path):
    allowed = [[int(action), 7] for action in np.arange(12) % 5]
    named = np.repeat(["a", "b", "c"], [4, 3, 5])
    path = write(tmp_path / "log.parquet", small(allowed=allowed, episode=named), row_group_size=5)
    for log in (Transitions.read(path), files.read(Transitions, path, in_memory=0)):
        assert log.n_episodes == 3
        assert [part.tolist() for part in log.allowed_in(np.arange(12))] == allowed


def test_a_large_file_becomes_memory_maps_that_go_with_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(files, "ROWS_AT_ONCE", 5)
    log = files.read(Transitions, write(tmp_path / "log.parquet", small()), in_memory=0)
    assert isinstance(log["observation"].base, np.memmap)
    assert same(log, make())
    assert len(os.listdir(tmp_path)) == 2
    del log
    gc.collect()
    assert os.listdir(tmp_path) == ["log.parquet"]


def test_a_large_file_that_is_refused_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    path = write(tmp_path / "log.parquet", small(**changed("reward", 5, np.nan)))
    with pytest.raises(LogError, match="reward is NaN or infinite in row 5"):
        files.read(Transitions, path, in_memory=0)
    assert os.listdir(tmp_path) == ["log.parquet"]


def test_damaged_files_are_refused(tmp_path):
    path = write(tmp_path / "log.parquet", small())
    (tmp_path / "text.parquet").write_text("a,b\n1,2\n")
    (tmp_path / "half.parquet").write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for name in ("text.parquet", "half.parquet"):
        with pytest.raises(LogError, match=f"{name} is no Parquet file, or not all of one"):
            Transitions.read(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"gone\.parquet does not exist: give a Parquet file"):
        Transitions.read(tmp_path / "gone.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match=r"holds no \.parquet files"):
        Transitions.read(tmp_path / "empty")
    with pytest.raises(LogError, match="the log has no rows"):
        Transitions.read(write(tmp_path / "none.parquet", {name: column[:0] for name, column in small().items()}))


def test_files_of_a_folder_have_the_same_columns(tmp_path):
    write(tmp_path / "0.parquet", small())
    write(tmp_path / "1.parquet", small(time=None))
    with pytest.raises(LogError, match=r"1\.parquet has other columns than 0\.parquet"):
        Transitions.read(tmp_path)


def test_what_is_missing_is_named_by_its_row(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ROWS_AT_ONCE", 5)
    rewards = [*map(float, range(12))]
    rewards[8] = None
    with pytest.raises(LogError, match="reward is missing in row 8:"):
        Transitions.read(write(tmp_path / "log.parquet", small(reward=rewards)))
    rows = small()["observation"].tolist()
    for row, error in (
        (rows[7][:1], "observation has not as many numbers"),
        ([1.0, None], "observation holds numbers"),
    ):
        observation = [*rows[:7], row, *rows[8:]]
        with pytest.raises(LogError, match=f"{error}.* in row 7:"):
            Transitions.read(write(tmp_path / "log.parquet", small(observation=observation)))


def test_a_frame_of_mixed_types_is_refused():
    frame = pd.DataFrame(as_lists(small()))
    frame["reward"] = [1.0, "two", *range(10)]
    with pytest.raises(LogError, match="a column of mixed types"):
        Transitions.from_pandas(frame)
    with pytest.raises(TypeError, match="give a pandas data frame"):
        Transitions.from_pandas(small())


def test_names_that_no_column_has_are_refused():
    with pytest.raises(LogError, match="give names of observation, action, reward"):
        Transitions.from_arrow(pa.table(as_lists(small())), {"rewards": "reward"})
