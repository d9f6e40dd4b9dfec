import shutil
from pathlib import Path

import pytest

from tests.cli.tiny import TINY
from wolpertinger.cli import main


@pytest.fixture
def copied(run_folder, tmp_path):
    """A run that may be changed."""
    return Path(shutil.copytree(run_folder, tmp_path / "run"))


def test_watch_writes_a_film_and_says_where(copied, tmp_path, capsys):
    assert main(["watch", str(copied), "--episodes", "2", "--checkpoint", "last", "--seed", "5"]) == 0
    assert f"film: {copied / 'watch.mp4'}, " in capsys.readouterr().out
    assert (copied / "watch.mp4").stat().st_size > 1_000
    out = tmp_path / "film.gif"
    assert main(["watch", str(copied), "--out", str(out), "--every", "2", "--fps", "5"]) == 0
    assert "pictures, return" in capsys.readouterr().out
    assert out.read_bytes().startswith(b"GIF89a")


def test_watch_plays_in_a_window(run_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", str(run_folder), "--human", "--fps", "1000"]) == 0
    assert "pictures, return" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_watched_run_can_be_trained_anew(copied):
    assert main(["watch", str(copied)]) == 0
    assert main([*TINY, "--out", str(copied), "--k", "0.1"]) == 2  # not unasked
    assert (copied / "watch.mp4").exists()
    assert main([*TINY, "--out", str(copied), "--k", "0.1", "--overwrite"]) == 0
    assert not (copied / "watch.mp4").exists()
