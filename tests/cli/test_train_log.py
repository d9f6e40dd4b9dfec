import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wolpertinger.cli import main


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("logs"), np.random.default_rng(0)
    columns = {"x_0": rng.normal(size=100), "x_1": rng.normal(size=100), "action": rng.integers(9, size=100)}
    columns |= {"clicks": rng.normal(size=100), "terminated": np.arange(100) % 5 == 4}
    pq.write_table(pa.table(columns), folder / "log.parquet")
    return folder / "log.parquet"


def test_a_log_is_trained_from(log_file, tmp_path, capsys):
    named = ["--column", "reward=clicks", "--column", "observation=x"]
    changes = ["--set", "batch_size=16", "--set", "learner.kind=offline", "--set", "learner.conservative=0.5"]
    run = ["train", "--log", str(log_file), *named, "--updates", "20", "--out", str(tmp_path / "run"), *changes]
    assert main(run) == 0
    assert "run folder:" in capsys.readouterr().out
    assert (tmp_path / "run" / "checkpoints" / "last.zip").exists()
    assert main(run) == 2
    assert "holds a run already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--log", "gone.parquet"], "gone.parquet does not exist"),
        (["--updates", "5", "recommender"], "--updates: give it after the TASK"),
        (["--resume", "run", "--updates", "5"], "--updates: --resume takes no other option"),
        (["--updates", "5"], "no TASK: give one of recommender"),
    ],
)
def test_what_does_not_go_together_is_refused(options, error, capsys):
    assert main(["train", *options]) == 2
    assert error in capsys.readouterr().err


def test_a_column_is_a_field_and_a_name(log_file, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--log", str(log_file), "--column", "clicks"])
    assert "'clicks' is not FIELD=NAME" in capsys.readouterr().err
    assert main(["train", "--log", str(log_file)]) == 2
    assert "no column 'observation' (observation): there are x_0, x_1, action, clicks" in capsys.readouterr().err
