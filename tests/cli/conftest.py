import pytest

from tests.cli.tiny import TINY
from wolpertinger.cli import main


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    changes = ["--set", "learning_starts=64", "--set", "exploration.epsilon=0.5", "--set", "batch_size=16"]
    assert main([*TINY, "--out", str(folder), "--k", "0.1", *changes]) == 0
    return folder
