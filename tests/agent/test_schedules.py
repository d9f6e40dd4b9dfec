"""Schedules of the learning rate go to a file and come back, as numbers."""

import math

import numpy as np
import pytest
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

from wolpertinger import Wolpertinger
from wolpertinger.agent.schedules import check_learning_rate, decode_schedule, encode_schedule

from .envs import TargetEnv, small_agent

PROGRESS = [1.0, 0.7313, 0.5, 0.25, 0.0]


class ZooSchedule:
    """As rl_zoo3 has it: to nothing, linearly."""

    def __call__(self, progress_remaining):
        return progress_remaining * 3e-4


SCHEDULES = {
    "linear": LinearSchedule(1e-3, 1e-4, end_fraction=0.5),
    "constant": ConstantSchedule(2e-3),
    "wrapped": FloatSchedule(FloatSchedule(LinearSchedule(1e-3, 0.0, 1.0))),
    "the zoo's": ZooSchedule(),
    "a function": lambda progress: 1e-3 * math.cos(progress) ** 2,
    "rising": lambda progress: 1e-3 * (1 - progress),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_there_and_back(name, tmp_path):
    schedule = SCHEDULES[name]
    small_agent(learning_rate=schedule).learn(30).save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", env=TargetEnv(length=5))
    for progress in PROGRESS:
        assert loaded.lr_schedule(progress) == pytest.approx(schedule(progress), rel=1e-5, abs=1e-12)
    loaded.learn(30)
    loaded.save(tmp_path / "again.zip")
    again = Wolpertinger.load(tmp_path / "again.zip")
    assert [again.lr_schedule(at) for at in PROGRESS] == [loaded.lr_schedule(at) for at in PROGRESS]


@pytest.mark.parametrize("name", ["linear", "constant"])
def test_those_of_stable_baselines3_come_back_to_the_bit(name):
    schedule = SCHEDULES[name]
    found = FloatSchedule(decode_schedule(encode_schedule(schedule)))
    assert [found(progress) for progress in PROGRESS] == [schedule(progress) for progress in PROGRESS]


def test_a_linear_function_takes_three_numbers():
    assert encode_schedule(ZooSchedule()) == {"schedule": "linear", "start": 3e-4, "end": 0.0, "end_fraction": 1.0}


@pytest.mark.parametrize("schedule", [lambda at: 1 / at, lambda at: at - 0.5, lambda at: math.sqrt(at - 0.5)])
def test_one_that_has_no_values_is_saved_as_its_present_value(schedule, tmp_path):
    agent = small_agent(learning_rate=schedule)
    with pytest.warns(UserWarning, match=r"schedule cannot be saved .*its value now, .*give learning_rate= to load"):
        agent.save(tmp_path / "agent.zip")
    assert Wolpertinger.load(tmp_path / "agent.zip").learning_rate == schedule(1)


@pytest.mark.parametrize(
    "value",
    [
        {"schedule": "linear", "start": 1.0, "end": 0.5},
        {"schedule": "linear", "start": 1.0, "end": -0.5, "end_fraction": 1.0},
        {"schedule": "linear", "start": 1.0, "end": 0.5, "end_fraction": 0},
        {"schedule": "table", "values": [1.0]},
        {"schedule": "table", "values": "abc"},
        {"schedule": "table", "values": [1.0, None]},
        {"schedule": "evil", "values": [1.0, 1.0]},
        -1.0,
    ],
)
def test_what_is_no_schedule_is_refused(value):
    with pytest.raises((ValueError, TypeError), match="learning_rate"):
        check_learning_rate("learning_rate", value)


def test_a_table_is_linear_between_its_values():
    table = decode_schedule({"schedule": "table", "values": [0.0, 1.0, 4.0]})
    np.testing.assert_allclose([table(at) for at in (0, 0.25, 0.5, 0.75, 1)], [0, 0.5, 1, 2.5, 4])
