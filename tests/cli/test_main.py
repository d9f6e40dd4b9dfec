import json

import pytest

from wolpertinger.cli import main

TINY = ["train", "recommender", "--items", "49", "--dim", "4", "--steps", "400", "--envs", "8"]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    changes = ["--set", "learning_starts=64", "--set", "exploration.epsilon=0.5", "--set", "batch_size=16"]
    assert main([*TINY, "--out", str(folder), "--k", "0.1", *changes]) == 0
    return folder


def test_train_keeps_what_was_asked_for(run_folder):
    config = json.loads((run_folder / "config.json").read_text())
    assert config["k"] == 0.1
    assert config["n_envs"] == 8
    assert config["env"]["items"] == 49
    assert config["agent"]["batch_size"] == 16
    assert config["agent"]["exploration"]["epsilon"] == 0.5


def test_evaluate_prints_the_agent_beside_the_baselines(run_folder, capsys):
    assert main(["evaluate", str(run_folder), "--episodes", "50"]) == 0
    printed = capsys.readouterr().out
    for part in ("agent", "random", "best fixed item", "optimum", "100.0%", "distinct", "recommends", "curve.png"):
        assert part in printed


def test_evaluate_gives_numbers_as_json(run_folder, capsys):
    assert main(["evaluate", str(run_folder), "--episodes", "50", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exact"]
    assert found["score"]["share"] == pytest.approx(found["score"]["value"] / found["baselines"]["optimum"])
    assert found["sampled"]["episodes"] == 50


def test_watch_writes_a_film_and_says_where(run_folder, tmp_path, capsys):
    assert main(["watch", str(run_folder), "--episodes", "2", "--checkpoint", "last", "--seed", "5"]) == 0
    assert f"film: {run_folder / 'watch.mp4'}, " in capsys.readouterr().out
    assert (run_folder / "watch.mp4").stat().st_size > 1_000
    out = tmp_path / "film.gif"
    assert main(["watch", str(run_folder), "--out", str(out), "--every", "2", "--fps", "5"]) == 0
    assert "pictures, return" in capsys.readouterr().out
    assert out.read_bytes().startswith(b"GIF89a")


def test_watch_plays_in_a_window(run_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", str(run_folder), "--human", "--fps", "1000"]) == 0
    assert "pictures, return" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_watched_run_can_be_trained_anew(run_folder):
    assert main(["watch", str(run_folder)]) == 0
    assert main([*TINY, "--out", str(run_folder), "--k", "0.1"]) == 2  # not unasked
    assert (run_folder / "watch.mp4").exists()
    assert main([*TINY, "--out", str(run_folder), "--k", "0.1", "--overwrite"]) == 0
    assert not (run_folder / "watch.mp4").exists()


@pytest.mark.parametrize("command", [["train", "recommender"], ["evaluate"], ["watch"]])
def test_help_shows_an_example(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--help"])
    assert "example:\n  wolpertinger" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*TINY, "--k", "50"], "wolpertinger train: k=50 is out of range for 49 actions"),
        ([*TINY, "--k", "1.5"], "k=1.5 is not a share"),
        ([*TINY, "--set", "colour=1"], "unexpected keyword argument 'colour'"),
        ([*TINY, "--set", "exploration.noise=pink"], "noise='pink': give 'gaussian', 'ornstein-uhlenbeck' or None"),
        ([*TINY, "--data", "films"], "data='films': give one of generated, complete-journey"),
        (["evaluate", "nowhere"], "wolpertinger evaluate: nowhere is no run folder"),
        (["train", "control", "--env-id", "Nope-v1"], "Environment `Nope` doesn't exist"),
        (["train", "control", "--levels", "1"], "levels=1: give whole numbers of at least 2"),
        (["train", "control", "--env-id", "CartPole-v1"], "the environment's actions are discrete already"),
        (["train", "cart-pole", "--levels", "1"], "levels=1: give a whole number of at least 2"),
        (["train", "puddle-world", "--plan", "0"], "plan=0: give a whole number from 1 to 64"),
        (["train", "puddle-world", "--map", "nowhere.txt"], "map='nowhere.txt' cannot be read as a text file"),
        (["watch", "nowhere"], "wolpertinger watch: nowhere is no run folder"),
        (["watch", "nowhere", "--out", "film.avi"], "film.avi is no film: give a file that ends in .mp4 or .gif"),
        (["watch", "nowhere", "--human", "--out", "x.gif"], "--human writes nothing: leave out --out x.gif"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_unknown_options_are_errors(capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*TINY, "--colour", "3"])
    assert "unrecognized arguments: --colour 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*TINY, "--steps", "0"], "argument --steps: 0 is too few: give at least 1"),
        ([*TINY, "--envs", "0"], "argument --envs: 0 is too few"),
        ([*TINY, "--threads", "0"], "argument --threads: 0 is too few"),
        ([*TINY, "--device", "toaster"], "argument --device: 'toaster' is no device here"),
        ([*TINY, "--preset", "best"], "argument --preset: invalid choice: 'best'"),
        (["evaluate", "runs", "--episodes", "0"], "argument --episodes: 0 is too few: give at least 1"),
    ],
)
def test_numbers_out_of_range_are_named(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err
