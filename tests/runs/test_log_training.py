import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wolpertinger import LogError, Transitions, Wolpertinger
from wolpertinger.runs.config import read_config
from wolpertinger.runs.log_training import LogRunConfig, make_actions, train_from_log

QUICK = {"updates": 20, "agent": {"batch_size": 16, "buffer_size": 1_000, "policy_kwargs": {"net_arch": [8]}}}


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    """Actions 0 to 8 of ten, in episodes of five rows."""
    folder, rng = tmp_path_factory.mktemp("logs"), np.random.default_rng(0)
    columns = {"observation": list(rng.normal(size=(100, 3))), "action": rng.integers(9, size=100)}
    columns |= {"reward": rng.normal(size=100), "terminated": np.arange(100) % 5 == 4}
    pq.write_table(pa.table(columns), folder / "log.parquet")
    np.save(folder / "vectors.npy", rng.normal(size=(10, 4)))
    return folder / "log.parquet"


def test_a_log_becomes_a_run_folder_with_an_agent_that_loads(log_file, tmp_path):
    config = LogRunConfig(log=str(log_file), actions=str(log_file.parent / "vectors.npy"), **QUICK)
    folder = train_from_log(config, tmp_path / "run", quiet=True)
    assert {path.name for path in folder.iterdir()} == {"config.json", "logs", "checkpoints", "result.json"}
    told = json.loads((folder / "result.json").read_text())
    assert (told["updates"], told["rows"], told["actions"]) == (20, 100, 9)
    agent = Wolpertinger.load(folder / "checkpoints" / "best.zip")
    picked, _ = agent.predict(np.random.default_rng(1).normal(size=(200, 3)).astype(np.float32))
    assert 9 not in picked
    assert (folder / "logs" / "progress.csv").read_text().count("\n") > 1


def test_a_run_is_replaced_only_if_told_to(log_file, tmp_path):
    config = LogRunConfig(log=str(log_file), **QUICK)
    train_from_log(config, tmp_path / "run", quiet=True)
    with pytest.raises(FileExistsError, match="holds a run already"):
        train_from_log(config, tmp_path / "run", quiet=True)
    train_from_log(config, tmp_path / "run", overwrite=True, quiet=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_commands_that_need_an_environment_say_so(log_file, tmp_path):
    folder = train_from_log(LogRunConfig(log=str(log_file), **QUICK), tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match="the run learned from a log and has no environment"):
        read_config(folder)


def test_a_bad_log_leaves_no_folder(log_file, tmp_path):
    config = LogRunConfig(log=str(log_file), actions=5, **QUICK)
    with pytest.raises(LogError, match=r"action is not in ActionIds\(5\)"):
        train_from_log(config, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_the_action_set_is_that_of_vectors_of_a_number_or_of_the_log(log_file):
    log = Transitions.read(log_file)
    assert make_actions(str(log_file.parent / "vectors.npy"), log).n == 10
    assert make_actions(12, log).n == 12
    assert make_actions(None, log).n == 9
    digits = Transitions(np.zeros((2, 1)), [[0, 1], [1, 1]], [0.0, 1.0], [1, 1])
    with pytest.raises(ValueError, match=r"the log's actions are no ids: give actions"):
        make_actions(None, digits)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"updates": 0}, "updates=0"),
        ({"agent": {"kk": 1}}, "kk"),
        ({"log": 3}, "log=3: give the path"),
        ({"seed": -1}, "seed=-1"),
        ({"unlogged": "yes"}, "unlogged='yes'"),
    ],
)
def test_a_config_is_checked(change, error):
    with pytest.raises((ValueError, TypeError), match=error):
        LogRunConfig(**{"log": "log.parquet", **change})
