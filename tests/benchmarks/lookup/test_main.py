"""`python -m benchmarks.lookup` with fakes instead of libraries."""

import json
import shlex

import numpy as np
import pytest

from benchmarks.lookup import __main__ as lookup
from benchmarks.lookup import bench
from benchmarks.lookup.__main__ import main
from tests.benchmarks.lookup.fakes import FAKES, FakeTuner


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """A folder with some vectors and queries, where committed results would go to `kept`."""
    monkeypatch.setattr(bench, "Tuner", FakeTuner)
    monkeypatch.setattr(lookup, "CONTENDERS", FAKES)
    monkeypatch.setattr(lookup, "RESULTS", tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("mine.npy", rng.normal(size=(500, 4)).astype(np.float32))
    np.save("asked.npy", rng.normal(size=(100, 4)))
    np.save("wrong.npy", np.zeros((3, 5)))
    return tmp_path


def test_own_vectors_become_a_table_a_result_and_a_plot(quick, capsys):
    options = ["--queries", "asked.npy", "--k", "1", "0.02", "--recall", "0.5", "--budget", "1", "--out", "found"]
    assert main(["mine.npy", *options]) == 0
    printed = capsys.readouterr().out
    assert "mine: 500 x 4" in printed
    assert "plot: found/mine.png" in printed
    result = json.loads((quick / "found" / "mine.json").read_text())
    assert [cell["k"] for cell in result["cells"]] == [1, 10]
    assert {cell["ours"]["queries"] for cell in result["cells"]} == {50}
    assert (quick / "found" / "mine.png").exists()


def test_a_set_with_other_options_is_a_trial_and_its_command_makes_it_again(quick, capsys):
    assert main(["isotropic", "--rows", "300", "--k", "1", "--recall", "fast", "0.5", "--budget", "1"]) == 0
    assert "isotropic: 300 x 20" in capsys.readouterr().out
    path = quick / "runs" / "lookup" / "isotropic.json"
    first = json.loads(path.read_text())
    assert first["targets"] == [0.5, 0.7]
    path.unlink()
    words = shlex.split(first["command"])
    assert words[:3] == ["python", "-m", "benchmarks.lookup"]
    assert main(words[3:]) == 0
    assert json.loads(path.read_text())["command"] == first["command"]


def test_a_set_that_has_its_result_is_skipped_unless_again(quick, monkeypatch):
    done = []
    monkeypatch.setattr(lookup, "_run", lambda name, folder, options: done.append((name, folder)))
    (quick / "kept").mkdir()
    (quick / "kept" / "plans.json").write_text("{}")
    main(["plans", "clustered"])
    assert done == [("clustered", quick / "kept")]
    main(["plans", "--again"])
    assert done[1:] == [("plans", quick / "kept")]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stars"], "python -m benchmarks.lookup: stars: give .npy files, or sets of recommender-20, "),
        (["nowhere.npy"], "nowhere.npy cannot be read: No such file or directory"),
        (["mine.npy", "--queries", "wrong.npy"], "wrong.npy: queries have shape (3, 5): give (batch, 4)"),
        (["plans", "--queries", "asked.npy"], "--queries asked.npy goes with one .npy file"),
        (["mine.npy", "--k", "501"], "k=501 is out of range for 500 actions"),
        (["mine.npy", "--recall", "1.5"], "recall=1.5: give a share of the true neighbours"),
        (["mine.npy", "--recall", "quick"], "recall='quick': give a share of the true neighbours"),
        (["mine.npy", "--budget", "0"], "--budget 0: give a number of seconds above 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_help_shows_an_example(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "example:\n  python -m benchmarks.lookup" in capsys.readouterr().out
