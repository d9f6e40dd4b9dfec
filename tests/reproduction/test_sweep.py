import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from reproduction.plan import FULL, Run, runs
from reproduction.reproduce import reproduce
from reproduction.results import Results
from reproduction.sweep import SweepError, alone, expected_seconds, sweep
from tests.reproduction.tiny import tiny_variants

KEYS = ("speed-recommender/k-1", "recommender-49/dim-20-k-1", "puddle-world-1/k-1", "lemma/monte-carlo")


def chosen(keys=KEYS):
    return {key: variant for key, variant in tiny_variants().items() if key in keys}


def test_finished_runs_are_skipped_and_a_failed_one_stops_the_sweep_with_its_reason(tmp_path):
    results = Results(tmp_path)
    good = chosen(KEYS[1:3])
    broken = replace(good[KEYS[2]], key="broken/k-1", arguments={**good[KEYS[2]].arguments, "k": 99})
    with pytest.raises(SweepError, match=r"broken/k-1/seed-0 failed: ValueError: k=99.*Finished runs are kept"):
        sweep([*runs(good), Run(broken, 0)], results, jobs=1)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/**/*.json")}
    assert len(written) == 2
    assert sweep(runs(good), results, jobs=1) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/**/*.json")} == written


def test_two_sweeps_do_not_share_a_folder(tmp_path):
    with alone(tmp_path), pytest.raises(ValueError, match="another sweep is at work"):
        reproduce([], tmp_path, FULL, jobs=1)
    assert not (tmp_path / "plan.json").exists()  # nothing was touched
    with alone(tmp_path):
        pass


def test_the_time_that_is_left_is_that_of_the_runs_that_are_left(tmp_path):
    variant = chosen()[KEYS[1]]
    assert expected_seconds(Run(replace(variant, seconds=100.0), 0)) > expected_seconds(Run(variant, 0)) + 100 - 1


KILLED = """
from pathlib import Path
from tests.reproduction.test_sweep import chosen
from reproduction.plan import runs
from reproduction.results import Results
from reproduction.sweep import sweep
if __name__ == "__main__":
    sweep(runs(chosen()), Results(Path({folder!r})), jobs=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_killed_at_a_random_moment_ends_in_the_same_set_of_results(seed, tmp_path):
    script = tmp_path / "script.py"
    folder = tmp_path / "results"
    script.write_text(KILLED.format(folder=str(folder)))
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    sweeping = subprocess.Popen([sys.executable, str(script)], env=environment)
    time.sleep(random.Random(seed).uniform(2, 12))
    sweeping.send_signal(signal.SIGKILL)
    sweeping.wait()
    time.sleep(2)  # its runs end with it
    before = {path: path.read_bytes() for path in folder.glob("runs/**/*.json")}
    subprocess.run([sys.executable, str(script)], env=environment, check=True)
    results = Results(folder)
    assert all(results.read(run) is not None for run in runs(chosen()))
    assert len(list(folder.glob("runs/**/*"))) == len(list(folder.glob("runs/*/"))) + 2 * len(KEYS)  # and no drafts
    assert all(path.read_bytes() == content for path, content in before.items())
