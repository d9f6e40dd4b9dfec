"""`wolpertinger train --ray`, on a Ray of this process."""

import json
import sys

import pytest

from tests.distributed.fake_ray import FakeRay
from wolpertinger.cli import main

TINY = ["recommender", "--items", "49", "--envs", "8", "--steps", "400", "--set", "learning_starts=64"]


@pytest.fixture
def fake(monkeypatch):
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


@pytest.mark.filterwarnings("ignore:rich is experimental")
@pytest.mark.parametrize("order", ["before", "after"])
def test_workers_train_a_task(order, fake, tmp_path):
    ray = ["--workers", "3", "--ray"]
    where = ["--out", str(tmp_path / "run")]
    given = [*ray[:2], *TINY, *where, "--ray"] if order == "before" else [*TINY, *where, *ray]
    assert main(["train", *given]) == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 400
    assert sum(options["num_cpus"] for options in fake.options_given) == 3 + 1  # and a spare


def test_a_finished_run_is_not_resumed_on_ray_either(fake, tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["train", *TINY, "--out", str(folder), "--ray"]) == 0
    assert main(["train", "--resume", str(folder), "--ray", "--workers", "2"]) == 2
    assert "is finished: nothing is left to resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([*TINY, "--workers", "2"], "--workers 2: give --ray too"),
        (["--resume", "x", "--workers", "2"], "--workers 2: give --ray too"),
        (["--log", "x.parquet", "--ray"], "--ray: a log is learned from in one process"),
        ([*TINY, "--ray", "127.0.0.1:9"], "no Ray cluster at 127.0.0.1:9"),
    ],
)
def test_mistakes_are_named(given, message, fake, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(FakeRay, "is_initialized", lambda self: False)
    monkeypatch.chdir(tmp_path)
    assert main(["train", *given]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["train", *TINY, "--ray", "--out", str(tmp_path / "run")]) == 2
    assert 'pip install "wolpertinger[ray]"' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
