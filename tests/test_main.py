import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import wolpertinger
from wolpertinger import cli

ROOT = Path(__file__).parent.parent


def test_the_version_is_that_of_the_installed_package():
    assert wolpertinger.__version__ == version("wolpertinger")


def test_the_command_line_tells_the_version(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"wolpertinger {wolpertinger.__version__}\n"


def test_python_m_runs_the_command_line():
    command = [sys.executable, "-m", "wolpertinger", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"wolpertinger {wolpertinger.__version__}\n"


def test_the_command_and_python_m_are_the_same():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"wolpertinger": "wolpertinger.cli:main"}
