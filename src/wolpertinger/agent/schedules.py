"""Schedules of the learning rate as JSON, and back: by their numbers, never by their code."""

from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

from wolpertinger.settings import check_kind, check_number

POINTS = 1_001  # at which a schedule that is not linear is looked at
MOST_POINTS = 100_001  # of one that is read
ROUNDING = 1e-12
NUMBERS = ("start", "end", "end_fraction")


class ScheduleTable:
    """A schedule by its values at evenly spaced shares of what remains of the training, linear in between."""

    def __init__(self, values: npt.ArrayLike) -> None:
        self.values = np.asarray(values, np.float64)
        self._places = np.linspace(0, 1, len(self.values))

    def __call__(self, progress_remaining: float) -> float:
        return float(np.interp(progress_remaining, self._places, self.values))


def plain_rate(schedule: Any) -> Any:
    """A constant schedule, as rl_zoo3 makes of every number, as that number; all else as it is."""
    while isinstance(schedule, FloatSchedule):
        schedule = schedule.value_schedule
    return schedule.val if isinstance(schedule, ConstantSchedule) else schedule


def encode_schedule(schedule: Schedule) -> float | dict[str, Any]:
    """A number, the three of a linear schedule, or 1,001 values; a ValueError for what has none that make sense."""
    schedule = plain_rate(schedule)
    if isinstance(schedule, int | float):
        return float(schedule)
    if isinstance(schedule, LinearSchedule):
        return {"schedule": "linear", **{name: float(getattr(schedule, name)) for name in NUMBERS}}
    if isinstance(schedule, ScheduleTable):
        return {"schedule": "table", "values": schedule.values.tolist()}
    places = np.linspace(0, 1, POINTS)
    values = np.array([float(schedule(float(place))) for place in places])
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("its values are not finite numbers of at least 0")
    if np.allclose(values, np.linspace(values[0], values[-1], POINTS), rtol=ROUNDING, atol=ROUNDING * values.max()):
        return {"schedule": "linear", "start": values[-1].item(), "end": values[0].item(), "end_fraction": 1.0}
    return {"schedule": "table", "values": values.tolist()}


def check_learning_rate(name: str, value: Any) -> None:
    """Refuse what is neither a number nor a schedule as `encode_schedule` says it."""
    if not isinstance(value, dict):
        check_number(name, value, optional=True)
        return
    if value.keys() == {"schedule", "values"} and value["schedule"] == "table":
        check_kind(name, value["values"], list, "a list of numbers")
        check_number(f"{name}: values", len(value["values"]), least=2, most=MOST_POINTS, whole=True)
        for number in value["values"]:
            check_number(name, number)
    elif value.keys() == {"schedule", *NUMBERS} and value["schedule"] == "linear":
        for part in NUMBERS:
            check_number(f"{name}.{part}", value[part])
        check_number(f"{name}.end_fraction", value["end_fraction"], most=1, above=True)
    else:
        raise ValueError(f"{name}={value!r} is no schedule")


def decode_schedule(value: Any) -> float | Schedule | None:
    """The learning rate that was encoded, if `check_learning_rate` has passed it."""
    if not isinstance(value, dict):
        return value
    if value["schedule"] == "table":
        return ScheduleTable(value["values"])
    return LinearSchedule(*(value[name] for name in NUMBERS))
