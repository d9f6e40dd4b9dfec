"""What commands print, where somebody reads only the beginning of it."""

import json
import subprocess
import sys

import pytest

from tests.cli.tiny import TINY
from wolpertinger.cli import main

WOLPERTINGER = [sys.executable, "-m", "wolpertinger"]


def test_whoever_reads_the_beginning_only_is_no_error(run_folder):
    """As `wolpertinger evaluate | head -1`, whose exit code was 1."""
    command = [*WOLPERTINGER, "evaluate", str(run_folder), "--episodes", "20", "--top", "300"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait() == 0
    assert error == b""


def test_standard_output_is_for_what_came_out(tmp_path, capsys):
    assert main([*TINY, "--out", str(tmp_path / "run"), "--json"]) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert (found["folder"], found["steps"]) == (str(tmp_path / "run"), 400)
    assert found["stopped_by"] == "steps"
    assert "400 steps" in told.err  # progress


def test_films_and_records_are_told_as_json(run_folder, tmp_path, capsys):
    assert main(["watch", str(run_folder), "--out", str(tmp_path / "film.gif"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["film"] == str(tmp_path / "film.gif")
    assert len(found["returns"]) == 1
    assert main(["record", str(run_folder), "--out", str(tmp_path / "log.parquet"), "--rows", "50", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"log": str(tmp_path / "log.parquet")}
    assert main(["log", "describe", str(tmp_path / "log.parquet"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] >= 50
    assert found["lengths"]["min"] >= 1
    assert len(found["most_common"]) == min(10, found["actions"])


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_shells_complete_commands_and_options(shell, capsys):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("evaluate", "recommender", "overwrite"):
        assert word in script
