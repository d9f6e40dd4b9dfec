"""The names of a log's columns."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from wolpertinger.data.checking import LogError
from wolpertinger.settings import show

NEEDED = ("observation", "action", "reward")
WIDE = ("observation", "next_observation", "action")  # that may be spread over several columns


@dataclass(frozen=True)
class Columns:
    """Which column holds what. Numbers of a vector are a list in one column, or columns NAME_0, NAME_1, ..."""

    observation: str = "observation"
    action: str = "action"
    """An id; digits or a vector as a list."""
    reward: str = "reward"
    terminated: str = "terminated"
    """Whether the episode ended there by itself."""
    truncated: str = "truncated"
    """Whether it was cut there: its value goes on."""
    next_observation: str = "next_observation"
    """By default the next row's, within an episode."""
    episode: str = "episode"
    time: str = "time"
    """Step numbers, of which none may be missing; or seconds or timestamps."""
    propensity: str = "propensity"
    """The chance that the logging policy gave to the action."""
    allowed: str = "allowed"
    """What it could have taken: a list of ids."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not isinstance(value := getattr(self, field.name), str) or not value:
                raise LogError(f"{field.name}={show(value)}: give the name of a column")
        names = [getattr(self, field.name) for field in fields(self)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise LogError(f"the column {twice[0]!r} is named for two things: give each its own")

    def find(self, there: Sequence[str]) -> dict[str, str | list[str]]:
        """The column of each thing that is there, or those it is spread over; what is needed or named must be there."""
        found: dict[str, str | list[str]] = {}
        for field in fields(self):
            name = getattr(self, field.name)
            if name in there:
                found[field.name] = name
            elif field.name in WIDE and (spread := _spread(name, there)):
                found[field.name] = spread
            elif field.name in NEEDED or name != field.default:
                raise LogError(f"no column {name!r} ({field.name}): there are {', '.join(map(str, there)) or 'none'}")
        if not found.keys() & {"terminated", "truncated", "episode"}:
            raise LogError(
                "nothing says where episodes end: give a column terminated, truncated or episode "
                f"(there are {', '.join(map(str, there))})"
            )
        return found


def _spread(name: str, there: Sequence[str]) -> list[str]:
    """NAME_0, NAME_1, ... in order; none may be missing."""
    numbers = sorted(int(rest) for part in there if (rest := part.removeprefix(f"{name}_")) != part and rest.isdigit())
    if numbers and numbers != list(range(len(numbers))):
        missing = next(number for number in range(len(numbers) + 1) if number not in numbers)
        raise LogError(f"no column {name}_{missing}, though there is {name}_{numbers[-1]}: give all of them")
    return [f"{name}_{number}" for number in numbers]
