import json
import re

import numpy as np
import pytest

from tests.runs.lookup_fakes import FAKES, FakeTuner
from wolpertinger import ActionTable
from wolpertinger.cli import main
from wolpertinger.runs import lookup


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Fakes instead of libraries, in a folder with some vectors and queries."""
    monkeypatch.setattr(lookup, "Tuner", FakeTuner)
    bench = lookup.bench
    monkeypatch.setattr(lookup, "bench", lambda *args, **options: bench(*args, contenders=FAKES, **options))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("mine.npy", rng.normal(size=(500, 4)).astype(np.float32))
    np.save("asked.npy", rng.normal(size=(100, 4)))
    np.save("wrong.npy", np.zeros((3, 5)))
    return tmp_path


def test_bench_prints_a_table_and_writes_result_and_plot(quick, capsys):
    options = ["--queries", "asked.npy", "--k", "1", "0.02", "--recall", "0.5", "--budget", "1", "--out", "found"]
    assert main(["index", "bench", "mine.npy", *options]) == 0
    printed = capsys.readouterr().out
    assert "mine: 500 x 4" in printed
    assert "plot: found/lookup.png" in printed
    result = json.loads((quick / "found" / "lookup.json").read_text())
    assert [cell["k"] for cell in result["cells"]] == [1, 10]
    assert {cell["ours"]["queries"] for cell in result["cells"]} == {50}
    assert (quick / "found" / "lookup.png").exists()


def test_bench_knows_sets_by_name(quick, capsys):
    options = ["--rows", "300", "--k", "1", "--recall", "fast", "0.5", "--budget", "1"]
    assert main(["index", "bench", "--set", "isotropic", *options]) == 0
    assert "isotropic: 300 x 20" in capsys.readouterr().out
    result = json.loads((quick / "runs" / "lookup-isotropic" / "lookup.json").read_text())
    assert result["targets"] == [0.5, 0.7]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "wolpertinger index: give either VECTORS.npy or --set NAME, one of recommender-20"),
        (["mine.npy", "--set", "plans"], "give either VECTORS.npy or --set NAME"),
        (["nowhere.npy"], "No such file or directory: 'nowhere.npy'"),
        (["mine.npy", "--queries", "wrong.npy"], "wrong.npy: queries have shape (3, 5): give (batch, 4)"),
        (["--set", "plans", "--queries", "asked.npy"], "--queries asked.npy goes with VECTORS.npy"),
        (["mine.npy", "--k", "501"], "k=501 is out of range for 500 actions"),
        (["mine.npy", "--recall", "1.5"], "recall=1.5: give a share of the true neighbours"),
        (["mine.npy", "--recall", "quick"], "recall='quick': give a share of the true neighbours"),
        (["mine.npy", "--budget", "0"], "--budget 0: give a number of seconds above 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert main(["index", "bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_help_shows_an_example(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["index", "bench", "--help"])
    assert "example:\n  wolpertinger index bench" in capsys.readouterr().out


def test_an_unknown_set_is_an_error_that_lists_them(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["index", "bench", "--set", "stars"])
    assert "argument --set: invalid choice: 'stars' (choose from" in capsys.readouterr().err


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
