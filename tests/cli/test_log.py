import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.logs import as_lists, changed, small
from wolpertinger.cli import main


@pytest.fixture
def log_file(tmp_path):
    pq.write_table(pa.table(as_lists(small())), tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def test_a_log_is_described_and_drawn(log_file, tmp_path, capsys):
    assert main(["log", "describe", str(log_file), "--actions", "10", "--plot", str(tmp_path / "log.png")]) == 0
    told = capsys.readouterr().out
    for text in ("5 of 10 (50.0%)", "the most common actions", "0.2 to 0.2", "4, 3 to 5"):
        assert text in told
    assert (tmp_path / "log.png").read_bytes()[:4] == b"\x89PNG"


def test_a_damaged_log_ends_in_one_line(tmp_path, capsys):
    pq.write_table(pa.table(as_lists(small(**changed("reward", 5, np.nan)))), tmp_path / "log.parquet")
    assert main(["log", "describe", str(tmp_path / "log.parquet")]) == 2
    assert capsys.readouterr().err.startswith("wolpertinger log: reward is NaN or infinite in row 5:")
