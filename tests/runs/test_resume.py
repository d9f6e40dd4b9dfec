"""Runs that were stopped, by a signal, an error or a full disk, and what `resume` makes of them."""

import csv
import errno
import json
import os
import signal
import warnings

import numpy as np
import pytest
import torch

from tests.runs.tiny import SMALL, tiny
from wolpertinger import Wolpertinger, archive
from wolpertinger.agent.checkpoint import KIND
from wolpertinger.agent.segments import checkpoints_in
from wolpertinger.runs import checkpointing, make_config, resume, train, training
from wolpertinger.runs.build import make_env
from wolpertinger.runs.run_folder import aside_of, lock
from wolpertinger.runs.signals import Interrupted, Stop

CONFIGS = {
    "two towers": tiny(preset="default"),
    "puddle world": make_config(
        "puddle-world", env={"plan": 4, "size": 6}, n_envs=2, steps=200, changes={**SMALL, "buffer_size": 120}
    ),
}
pytestmark = pytest.mark.filterwarnings("ignore:.*the environment's state was not kept")


class StopAt(Stop):
    """A signal that arrives after so many looks at it."""

    def __init__(self, looks):
        self.left, self.got = looks, None

    @property
    def signum(self):
        self.left -= 1
        return signal.SIGTERM if self.left < 0 else None


def interrupted(config, folder, looks, **options):
    with pytest.raises(Interrupted, match=rf"go on with: wolpertinger train --resume {folder}") as caught:
        train(config, folder, quiet=True, stop=StopAt(looks), **options)
    assert caught.value.code == 128 + signal.SIGTERM
    return folder


def rows(path, *without):
    with path.open(newline="") as file:
        return [{name: value for name, value in row.items() if name not in without} for row in csv.DictReader(file)]


@pytest.mark.parametrize("every", [30, 1e-6])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_that_was_stopped_twice_ends_as_if_it_had_not(name, every, tmp_path):
    config = CONFIGS[name]
    whole = train(config, tmp_path / "whole", quiet=True)
    folder = interrupted(config, tmp_path / "parts", 30, checkpoint_seconds=every)
    with pytest.raises(Interrupted, match="interrupted at step"):
        resume(folder, quiet=True, stop=StopAt(20))
    resume(folder, quiet=True)
    one, other = (Wolpertinger.load(path / "checkpoints" / "last.zip") for path in (whole, folder))
    assert all(torch.equal(one.policy.state_dict()[key], value) for key, value in other.policy.state_dict().items())
    assert rows(folder / "curve.csv", "seconds") == rows(whole / "curve.csv", "seconds")
    logs = [rows(path / "logs" / "progress.csv") for path in (whole, folder)]
    told = ("time/total_timesteps", "rollout/ep_rew_mean", "time/episodes")
    shown = [[[row[column] for column in told] for row in log] for log in logs]
    assert shown[0] == shown[1]
    losses = [[float(row["train/critic_loss"] or 0) for row in log] for log in logs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)  # means, summed in other parts
    results = [json.loads((path / "result.json").read_text()) for path in (whole, folder)]
    assert results[0]["best"]["return"] == results[1]["best"]["return"]
    assert results[0]["steps"] == results[1]["steps"] == config.steps


def test_a_finished_run_is_not_resumed(folder):
    with pytest.raises(ValueError, match="is finished: nothing is left to resume"):
        resume(folder)


def test_a_run_without_a_checkpoint_begins_anew(tmp_path, folder, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text((folder / "config.json").read_text())
    resume(tmp_path / "run", quiet=True)
    assert "begins anew" in capsys.readouterr().err
    assert rows(tmp_path / "run" / "curve.csv", "seconds") == rows(folder / "curve.csv", "seconds")


def test_a_run_that_is_being_trained_is_left_alone(tmp_path):
    folder = interrupted(tiny(), tmp_path / "run", 5)
    with lock(folder):
        with pytest.raises(BlockingIOError, match="is being trained by another process"):
            resume(folder)
        with pytest.raises(BlockingIOError, match="is being trained by another process"):
            train(tiny(), folder, overwrite=True, quiet=True)
    assert (folder / "state").exists()


def test_a_run_that_is_replaced_stays_until_the_new_one_has_something(tmp_path):
    folder = train(tiny(steps=200), tmp_path / "run", quiet=True)
    interrupted(tiny(), folder, 5, overwrite=True)
    assert json.loads((aside_of(folder) / "result.json").read_text())["steps"] == 200
    interrupted(tiny(), folder, 5, overwrite=True)  # has nothing either
    assert json.loads((aside_of(folder) / "result.json").read_text())["steps"] == 200
    resume(folder, quiet=True)
    assert not aside_of(folder).exists()
    assert json.loads((folder / "result.json").read_text())["steps"] == 800


def test_without_checkpoints_nothing_is_kept(tmp_path):
    with pytest.raises(Interrupted, match="the run was not saved"):
        train(tiny(), tmp_path / "run", quiet=True, checkpoint_seconds=None, stop=StopAt(5))
    assert not (tmp_path / "run" / "state").exists()


def test_a_full_disk_does_not_end_a_run(tmp_path, monkeypatch):
    config, replace, full = tiny(), os.replace, []

    def sometimes(source, target):
        if full and "state" in str(target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)
        full.append(target) if "000002" in str(target) else None  # from the third checkpoint on

    monkeypatch.setattr("os.replace", sometimes)
    with pytest.warns(UserWarning, match="the run was not saved, training goes on: .*No space left on device"):
        folder = train(config, tmp_path / "run", quiet=True, checkpoint_seconds=1e-6)
    assert json.loads((folder / "result.json").read_text())["steps"] == 800
    assert [path.stem for path in sorted((folder / "state").glob("*.zip"))] == ["000000", "000001", "000002"]
    assert Wolpertinger.load(folder / "state", env=make_env(config)).num_timesteps == 8


def test_a_run_whose_environment_raises_saves_itself_first(tmp_path, monkeypatch):
    make = training.make_env

    def breaks(*args):
        env = make(*args)
        step, count = env.venv.env.step, [0]

        def broken(actions):
            count[0] += 1
            if count[0] == 40:
                raise ValueError("the robot fell over")
            return step(actions)

        env.venv.env.step = broken
        return env

    monkeypatch.setattr(training, "make_env", breaks)
    with pytest.raises(ValueError, match="the robot fell over") as caught:
        train(tiny(), tmp_path / "run", quiet=True)
    assert "wolpertinger train --resume" in caught.value.__notes__[0]
    monkeypatch.undo()
    resume(tmp_path / "run", quiet=True)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 800


def test_a_run_in_an_environment_without_a_state_goes_on_with_new_episodes(tmp_path, monkeypatch):
    monkeypatch.setattr("wolpertinger.runs.training.SELECTION_EPISODES", 2)
    config = make_config("control", n_envs=1, steps=100, changes=SMALL)
    folder = interrupted(config, tmp_path / "run", 60)
    with pytest.warns(UserWarning, match="new episodes begin"):
        resume(folder, quiet=True)
    assert json.loads((folder / "result.json").read_text())["steps"] == 100


def test_a_run_limited_in_seconds_has_the_rest_of_them_left(tmp_path):
    folder = interrupted(tiny(steps=10**9, seconds=1.5), tmp_path / "run", 40)
    kept = json.loads(_run_json(folder))["curve"]["trained"]
    assert 0 < kept < 1.5
    resume(folder, quiet=True)
    result = json.loads((folder / "result.json").read_text())
    assert result["stopped_by"] == "seconds"
    assert 1.5 <= result["seconds"] < 2.5


def _run_json(folder):
    return archive.read(checkpoints_in(folder / "state")[0], KIND)[checkpointing.RUN]


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    config = CONFIGS["puddle world"]
    whole = train(config, tmp_path / "whole", quiet=True)
    folder = interrupted(config, tmp_path / "parts", 60, checkpoint_seconds=1e-6)
    newest = max((folder / "state").glob("*.zip"))
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.warns(UserWarning, match=rf"{newest.name} is damaged.*the checkpoint before it is taken"):
        resume(folder, quiet=True)
    assert rows(folder / "curve.csv", "seconds") == rows(whole / "curve.csv", "seconds")
    with warnings.catch_warnings(action="error"):
        assert np.isfinite(Wolpertinger.load(folder / "checkpoints" / "last.zip").num_timesteps)
