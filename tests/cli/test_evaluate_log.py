import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wolpertinger.cli import main


@pytest.fixture(scope="module")
def log_and_run(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("logs"), np.random.default_rng(0)
    columns = {"x_0": rng.normal(size=400), "action": rng.integers(5, size=400), "propensity": np.full(400, 0.2)}
    columns |= {"clicks": rng.normal(size=400), "terminated": np.ones(400)}
    pq.write_table(pa.table(columns), folder / "log.parquet")
    named = ["--log", str(folder / "log.parquet"), "--column", "reward=clicks", "--column", "observation=x"]
    assert main(["train", *named, "--updates", "10", "--out", str(folder / "run"), "--set", "batch_size=16"]) == 0
    return named, str(folder / "run")


def test_the_table_says_what_may_be_trusted(log_and_run, capsys):
    named, run = log_and_run
    assert main(["evaluate", run, *named, "--updates", "5", "--gamma", "1"]) == 0
    told = capsys.readouterr().out
    for text in ("return by 400 rows of the log, gamma 1", "fitted Q", "doubly robust", "effective episodes"):
        assert text in told


def test_the_numbers_are_there_as_json(log_and_run, capsys):
    named, run = log_and_run
    assert main(["evaluate", run, *named, "--updates", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["estimates"]][:3] == ["logged", "fitted Q", "importance sampling"]


def test_a_run_without_an_environment_needs_a_log(log_and_run, capsys):
    named, run = log_and_run
    assert main(["evaluate", run]) == 2
    assert "evaluate it with --log FILE" in capsys.readouterr().err
    assert main(["evaluate", run, "--gamma", "1"]) == 2
    assert "--gamma: it goes with --log FILE" in capsys.readouterr().err
    assert main(["evaluate", "gone", *named]) == 2
    assert "gone has no checkpoint 'best'" in capsys.readouterr().err
