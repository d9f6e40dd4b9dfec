"""A few of each attack; `make test-faults` runs the many."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import wolpertinger
from tests.faults import (
    arguments,
    bodies,
    commands,
    crafted,
    damage,
    killed,
    long,
    numbers,
    odd,
    saving,
    serving,
    sharing,
    sharing_agent,
)
from tests.faults.tasks import TASKS

QUICK = "puddle-world, nearest"
MARKED = [task if task == QUICK else pytest.param(task, marks=pytest.mark.slow) for task in TASKS]


@pytest.mark.parametrize("task", MARKED)
def test_a_killed_run_ends_as_if_nothing_had_happened(task):
    found = killed.attack(task, kills=2, seed=0)
    assert found["kills"] == 2
    assert not found["failures"]


def test_kills_amid_a_checkpoint_leave_the_last_complete_one():
    found = saving.kill_while_saving(4)
    assert (found["kills"], found["loaded"], found["lost_at_most_one"]) == (4, 4, 4)
    assert found["most_files"] < 20


def test_a_service_that_is_killed_keeps_what_it_answered():
    found = serving.chaos(1, changes_per_kill=60)
    assert found["kills"] == 1
    assert found["changes"] >= 60
    assert found["swaps"] >= 3
    assert not found["failures"]
    assert found["named_after_removal"] == 0


def test_strange_bodies_are_refused_and_end_nothing():
    pytest.importorskip("schemathesis")
    found = bodies.strange_bodies(120)
    assert found["tries"] >= 120
    assert found["refused"] > 60
    assert found["slow_or_large"] > 0
    assert found["server_errors"] == 0
    assert not found["failures"]


def test_a_full_disk_ends_in_a_typed_error_and_leaves_what_was_there():
    found = saving.fill_the_disk(6)
    assert found["refused"] + found["saved"] == found["went_on"] == 6
    assert found["intact"] == found["refused"] > 0
    assert found["litter"] == 0


def test_bad_numbers_are_named_or_counted_and_never_kept():
    found = numbers.bad_numbers(4)
    assert (found["raised"], found["named"], found["skipped"], found["counted"]) == (4, 4, 4, 4)
    assert not found["failures"]


@pytest.mark.parametrize("attack", [numbers.large_rewards, numbers.large_steps])
def test_explosions_are_rejected(attack):
    found = attack(3)
    assert found["finite"] == 3, found["failures"]


@pytest.mark.parametrize(("attack", "tries"), [(damage.flips, 24), (damage.cuts, 12), (crafted.crafted, 36)])
def test_files_of_strangers_are_refused_or_harmless(attack, tries):
    found = attack(tries, seed=1)
    assert not found["failures"]
    assert found["tries"] == tries


@pytest.mark.parametrize("attack", [arguments.odd_arguments, commands.odd_commands])
def test_odd_arguments_and_commands_are_refused_in_our_words(attack):
    found = attack(25)
    assert found["tries"] == 25
    assert found["refused"] > 5
    assert not found["failures"]
    assert found["foreign"] <= 1, found["foreign_errors"]


@pytest.mark.parametrize("kind", ["exact", "HNSW16", "IVF16,SQ8"])
def test_lookups_while_another_thread_writes_are_right_for_some_moment(kind):
    found = sharing.look_up_while_writing(kind, 500)
    assert found["lookups"] >= 500
    assert found["changes"] > 20
    assert not found["failures"]


def test_the_judge_of_lookups_knows_what_was_there_and_when():
    """Ten thousand rows near the point are gone before the lookup; during it the nearest of ten that are left goes."""
    history = sharing.History()
    history.add(np.zeros((10_000, sharing.DIM)))
    history.add(np.arange(1.0, 11)[:, None] * np.ones(sharing.DIM))
    history.died = dict.fromkeys(range(10_000), 1) | {10_000: 2}

    def judge(kind, first_found, last=2, step=1):
        found = first_found + step * np.arange(sharing.K)
        told = sharing.judge(kind, [(np.zeros(sharing.DIM), found, 1, last)], history.freeze(), [])
        return told["recall"], any("was never right" in failure for failure in told["failures"])

    for kind in ("exact", "HNSW16"):
        assert judge(kind, 10_000) == judge(kind, 10_001) == (1, False)
        for wrong in (0, 9_999, 10_006):  # gone, one of them gone, one that never was
            assert judge(kind, wrong) == (0, True)
        assert judge(kind, 10_004, step=-1) == (0, True)  # the farthest first
    assert judge("exact", 10_001, last=1) == (0, True)  # the nearest was still there
    assert judge("HNSW16", 10_001, last=1) == (0.8, False)


def test_predictions_while_another_thread_writes_name_actions_that_are_there():
    found = sharing_agent.predict_while_writing("the class's defaults", 300)
    assert found["answers"] >= 300
    assert found["changes"] > 5
    assert not found["failures"]


@pytest.mark.parametrize(
    ("attack", "count", "found"),
    [
        (long.predictions, 6_000, {"predictions": 6_168, "one_by_one": 24}),
        (long.training, 600, {"steps": 600, "updates": 500}),
        (long.changes, 4_000, {"rows": 4_000, "alive": 500}),
    ],
)
def test_long_runs_hold_no_more_at_their_end(attack, count, found):
    told = attack(count)
    assert told.items() >= found.items()
    assert not told["failures"]


def test_what_grows_is_noticed(tmp_path):
    held, holdings = [], long.Holdings()
    for number in range(4):
        held.append(open(tmp_path / str(number), "w"))  # noqa: SIM115
        holdings.look()
    for file in held:
        file.close()
    assert holdings.judge()["failures"] == ["2 files more"]


def test_the_judge_tells_our_words_from_others():
    def of_numpy():
        wolpertinger.ActionTable([[1.0]]).sample(np.random.default_rng(0), 1)
        np.zeros(-1)

    assert odd.judged(lambda: wolpertinger.ActionIds(0))["came_to"] == "refused"
    assert odd.judged(of_numpy)["came_to"] == "foreign"
    assert odd.judged(lambda: wolpertinger.ActionIds())["came_to"] == "foreign"  # Python's own
    assert odd.judged(lambda: None)["came_to"] == "accepted"


@pytest.mark.parametrize(
    ("opened", "given", "is_ours"),
    [
        ("nowhere", "nowhere", True),
        ("nowhere.zip", Path("nowhere"), True),
        ("elsewhere", "nowhere", False),
        ("nowhere", None, False),
    ],
)
def test_the_systems_word_counts_on_the_very_path_that_was_given(opened, given, is_ours, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="No such file") as met:
        Path(opened).read_text()
    assert odd.is_of_path(met.value, given) is is_ours


def test_crashes_and_hangs_are_noticed():
    assert odd.meet(lambda: os.kill(os.getpid(), signal.SIGSEGV))["came_to"] == "crash"
    assert odd.meet(lambda: time.sleep(60), seconds=0.2)["came_to"] == "hang"
    assert "Unable to allocate 32.0 GiB" in odd.meet(lambda: np.ones(2**32))["said"]
