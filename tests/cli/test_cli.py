import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.cli.tiny import TINY
from wolpertinger.cli import main


@pytest.mark.parametrize("command", [[], ["train"], ["train", "recommender"], ["evaluate"], ["watch"], ["serve"]])
def test_help_shows_an_example(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--help"])
    assert "example:\n  wolpertinger" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*TINY, "--k", "50"], "wolpertinger train: k=50 is out of range for 49 actions"),
        ([*TINY, "--k", "1.5"], "k=1.5 is not a share"),
        ([*TINY, "--set", "colour=1"], "the agent has no colour: it has critic, candidates"),
        ([*TINY, "--set", "exploration.noise=pink"], "noise='pink': give 'gaussian', 'ornstein-uhlenbeck' or None"),
        ([*TINY, "--set", "learning_rate=abc"], "learning_rate='abc': give a finite number of at least 0 or None"),
        ([*TINY, "--set", "policy_kwargs=5"], "policy_kwargs=5: give a dict of settings by name"),
        ([*TINY, "--set", "train_freq=0"], "train_freq=0: give a whole number of steps, 1 at least"),
        ([*TINY, "--set", "exploration.colour=1"], "exploration: Exploration has no colour; it has noise, sigma"),
        ([*TINY, "--set", "gamma=1", "--set", "gamma.x=1"], "--set gamma.x: gamma is set to 1 already"),
        ([*TINY, "--set", f"gamma={'[' * 100_000}"], "gamma='[[[["),
        ([*TINY, "--set", "seed=1"], "the agent has no seed: it has critic"),
        ([*TINY, "--items", "99999999999"], "items=99,999,999,999, dim=4 would take "),
        ([*TINY, "--data-seed", "-1"], "data_seed=-1: give a whole number of at least 0"),
        ([*TINY, "--data", "films"], "data='films': give one of 'generated', 'complete-journey'"),
        (["evaluate", "nowhere"], "wolpertinger evaluate: nowhere is no run folder"),
        (["train", "control", "--env-id", "Nope-v1"], "Environment `Nope` doesn't exist"),
        (["train", "control", "--levels", "1"], "levels=1: give whole numbers of at least 2"),
        (["train", "control", "--env-id", "CartPole-v1"], "the environment's actions are discrete already"),
        (["train", "cart-pole", "--levels", "1"], "levels=1: give a whole number of at least 2"),
        (["train", "puddle-world", "--plan", "0"], "plan=0: give a whole number from 1 to 64"),
        (["train", "puddle-world", "--map", "nowhere.txt"], "map='nowhere.txt' cannot be read as a text file"),
        (["serve", "nowhere.zip"], "wolpertinger serve: nowhere.zip is no file: give a run folder or a file"),
        (["serve", "nowhere.zip", "--key", "x.pem"], "--certificate and --key go together: give both, or neither"),
        (["serve", "nowhere.zip", "--queue", "8"], "queue=8: give room for one batch at least, 256 states"),
        (["serve", "nowhere.zip", "--name", "../x"], "name='../x': give letters, digits"),
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
        ([*TINY, "--threads", "20000"], "argument --threads: 20000 is too many: give"),
        ([*TINY, "--envs", "99999999999"], "argument --envs: 99999999999 is too many: give 65,536 at most"),
        ([*TINY, "--seed", "-1"], "argument --seed: -1 is too few: give at least 0"),
        ([*TINY, "--device", "toaster"], "argument --device: device='toaster' is no device here"),
        ([*TINY, "--preset", "best"], "argument --preset: invalid choice: 'best'"),
        (["evaluate", "runs", "--episodes", "0"], "argument --episodes: 0 is too few: give at least 1"),
        ([*TINY, "--out", "[" * 5_000], "argument --out: '[[["),
        (["train", "--resume", "x" * 5_000], "is of no use: File name too long"),
        (["evaluate", "a\0b"], "'a\\x00b' is of no use: embedded null byte"),
    ],
)
def test_numbers_out_of_range_are_named(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("out", ["/proc/nowhere/at/all", "/dev/null/run"])
def test_a_folder_that_cannot_be_made_is_named(out, capsys):
    assert main([*TINY, "--out", out]) == 2
    assert f"the folder '{out}/checkpoints' cannot be made: " in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["train", "recommender", "--help"]])
def test_help_loads_nothing_that_draws(arguments):
    """In a process of its own: the other tests have loaded all of it."""
    code = f"""
import sys
import stable_baselines3.common.logger
known = set(sys.modules)
from wolpertinger.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print(*({{"rich", "matplotlib", "imageio", "tensorboard", "pygame"}} & (sys.modules.keys() - known)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"wolpertinger {version('wolpertinger')}\n"
