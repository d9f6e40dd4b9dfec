"""A few of each attack; `make test-faults` runs the many."""

import os
import signal
import time

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


def test_predictions_while_another_thread_writes_name_actions_that_are_there():
    found = sharing_agent.predict_while_writing("the class's defaults", 300)
    assert found["answers"] >= 300
    assert found["changes"] > 5
    assert not found["failures"]


def test_the_judge_tells_our_words_from_others():
    def of_numpy():
        wolpertinger.ActionTable([[1.0]]).sample(np.random.default_rng(0), 1)
        np.zeros(-1)

    assert odd.judged(lambda: wolpertinger.ActionIds(0))["came_to"] == "refused"
    assert odd.judged(of_numpy)["came_to"] == "foreign"
    assert odd.judged(lambda: wolpertinger.ActionIds())["came_to"] == "foreign"  # Python's own
    assert odd.judged(lambda: None)["came_to"] == "accepted"


def test_crashes_and_hangs_are_noticed():
    assert odd.meet(lambda: os.kill(os.getpid(), signal.SIGSEGV))["came_to"] == "crash"
    assert odd.meet(lambda: time.sleep(60), seconds=0.2)["came_to"] == "hang"
    assert "Unable to allocate 32.0 GiB" in odd.meet(lambda: np.ones(2**32))["said"]
