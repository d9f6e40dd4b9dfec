"""Signals and --resume by the command line, in processes of their own."""

import json
import os
import signal
import time

import pytest

from tests.cli.tiny import TINY
from tests.faults.tasks import kill, start, wait
from wolpertinger.cli import main

LONG = [*TINY, "--steps", "200000", "--set", "learning_starts=64", "--set", "batch_size=16", "--threads", "1"]


def wait_for(path, child):
    while not path.exists():
        assert wait(child, 0.01) is None
    time.sleep(0.2)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_go_on(signum, code, tmp_path):
    folder, errors = tmp_path / "run", tmp_path / "errors"
    child = start([*LONG, "--out", str(folder)], errors)
    wait_for(folder / "state" / "000000.zip", child)
    kill(child, signum)
    assert wait(child) == code
    told = errors.read_text()
    assert "\nwolpertinger train: interrupted at step " in f"\n{told}"  # behind the bar
    assert told.endswith(f"the run is saved, go on with: wolpertinger train --resume {folder}\n")
    assert "Traceback" not in told
    assert json.loads((folder / "config.json").read_text())["steps"] == 200_000
    assert (folder / "state" / "000001.zip").exists()


def test_a_second_signal_stops_at_once(tmp_path):
    folder, errors = tmp_path / "run", tmp_path / "errors"
    child = start([*LONG, "--out", str(folder)], errors)
    wait_for(folder / "state" / "000000.zip", child)
    os.kill(child, signal.SIGSTOP)  # both signals wait for it
    kill(child, signal.SIGTERM)
    kill(child, signal.SIGINT)
    os.kill(child, signal.SIGCONT)
    assert wait(child) in (130, 143)
    assert "Traceback" not in errors.read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train"], "no TASK: give one of recommender"),
        (["train", "--resume", "nowhere"], "nowhere is no run folder"),
        (["train", "--resume", "x", "recommender"], "--resume x: leave out the task"),
        ([*TINY, "--checkpoint-every", "-1"], "--checkpoint-every -1.0: give seconds, or 0"),
        ([*TINY, "--checkpoint-every", "nan"], "--checkpoint-every nan: give seconds, or 0"),
    ],
)
def test_odd_command_lines_get_one_line(arguments, told, capsys):
    assert main(arguments) == 2
    assert told in capsys.readouterr().err
