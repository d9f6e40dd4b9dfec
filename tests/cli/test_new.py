"""A new project runs as it is written, and by the command line."""

import json
import re
import subprocess
import sys

import gymnasium as gym
import pytest

from wolpertinger import Wolpertinger
from wolpertinger.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("my_problem", "other"):
        sys.modules.pop(name, None)
    gym.registry.pop("MyProblem-v0", None)


def test_a_new_project_trains_evaluates_and_saves(folder, capsys):
    assert main(["new", "my-problem"]) == 0
    assert capsys.readouterr().out == "written: my_problem.py\ntry: python my_problem.py\n"
    command = [sys.executable, "-W", "error", "my_problem.py", "--steps", "600"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    random, learned = map(float, re.search(r"random actions: (\S+), of the agent: (\S+),", told).groups())
    assert learned > random + 1
    assert Wolpertinger.load(folder / "my_problem.zip").actions.n == 2_000


def test_its_environment_is_one_of_the_command_line(folder, capsys):
    assert main(["new", "My Problem", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"file": "my_problem.py", "environment": "my_problem:MyProblem-v0"}
    options = ["--env-id", told["environment"], "--steps", "40", "--set", "learning_starts=20", "--out", "run"]
    assert main(["train", "environment", *options, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["folder"], told["steps"]) == ("run", 40)


def test_nothing_is_overwritten_and_names_are_names(folder, capsys):
    (folder / "my_problem.py").write_text("mine")
    assert main(["new", "my-problem"]) == 2
    assert "my_problem.py exists already" in capsys.readouterr().err
    assert (folder / "my_problem.py").read_text() == "mine"
    for name in ("../evil", "class", "5x", ""):
        with pytest.raises(SystemExit, match="2"):
            main(["new", name])
        assert "is no name: give letters" in capsys.readouterr().err
