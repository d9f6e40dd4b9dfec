import json
import re

import numpy as np
import pytest

from wolpertinger import ActionTable
from wolpertinger.cli import main


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """A folder with some vectors and queries."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("mine.npy", rng.normal(size=(500, 4)).astype(np.float32))
    np.save("asked.npy", rng.normal(size=(100, 4)))
    np.save("wrong.npy", np.zeros((3, 5)))
    return tmp_path


def test_tune_prints_what_was_tried_and_writes_a_table_that_loads(quick, capsys):
    assert main(["index", "tune", "mine.npy", "--k", "0.02", "--recall", "fast", "--out", "tuned.zip"]) == 0
    printed = capsys.readouterr().out
    assert "500 x 4, k = 10, recall 0.7" in printed
    assert "chosen: exact" in printed  # nothing beats a scan of 500
    table = ActionTable.load(quick / "tuned.zip")
    assert (table.n, table.recall, table.health[0].k) == (500, 0.7, 10)


def test_tune_speaks_json_and_takes_queries(quick, capsys):
    assert main(["index", "tune", "mine.npy", "--k", "3", "--queries", "asked.npy", "--json", "--threads", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["k"], found["promised"], found["recipe"], found["held_out"]["queries"]) == (3, 0.99, "exact", 50)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["mine.npy", "--k", "501"], "k=501 is out of range for 500 actions"),
        (["mine.npy", "--k", "1", "--recall", "quick"], "recall='quick': give a share of the true neighbours"),
        (["mine.npy", "--k", "1", "--recall", "1.2"], r"recall=1.2: give a share"),
        (["nothing.npy", "--k", "1"], "nothing.npy"),
        (["mine.npy", "--k", "1", "--queries", "wrong.npy"], r"wrong.npy: queries have shape \(3, 5\): give"),
        (["mine.npy", "--k", "1", "--recipe", "Nope"], "index='Nope' is not a recipe"),
        (["mine.npy", "--k", "1", "--build-seconds", "-1"], "build_seconds=-1.0: give a number of at least 0"),
    ],
)
def test_tune_says_what_is_wrong_in_one_line(quick, capsys, options, match):
    assert main(["index", "tune", *options]) == 2
    printed = capsys.readouterr().err
    assert re.search(match, printed)
    assert printed.count("\n") == 1


@pytest.mark.parametrize("command", [["index"], ["index", "tune"]])
def test_help_shows_an_example(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--help"])
    assert "example:\n  wolpertinger index tune" in capsys.readouterr().out
