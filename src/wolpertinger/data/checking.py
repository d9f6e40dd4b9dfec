"""What makes a log unusable, row by row: every complaint names the rows, and nothing is repaired or dropped."""

from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.settings import show

NAMED = 5  # rows that an error lists
ROWS_AT_ONCE = 2**16

Rows = npt.NDArray[np.int64]


class LogError(ValueError):
    """A log that cannot be learned from as it is."""


def refuse_rows(bad: npt.ArrayLike, what: str, remedy: str, first: int = 0) -> None:
    """Raise a `LogError` that names the rows where `bad` holds, counted from `first`."""
    rows = np.flatnonzero(bad)
    if not rows.size:
        return
    named = ", ".join(f"{row:,}" for row in (rows[:NAMED] + first).tolist())
    more = f" and {rows.size - NAMED:,} more" if rows.size > NAMED else ""
    raise LogError(f"{what} in row{'s' if rows.size > 1 else ''} {named}{more}: {remedy}")


def check_numbers(name: str, part: npt.NDArray[Any], first: int = 0) -> None:
    """Refuse what is not numbers, or not finite in float32."""
    if part.dtype.kind not in "fiub":
        raise LogError(f"{name} is {part.dtype}: give numbers")
    if part.dtype.kind == "f":
        with np.errstate(over="ignore"):
            finite = np.isfinite(part.astype(np.float32, copy=False)).reshape(len(part), -1).all(axis=1)
        refuse_rows(~finite, f"{name} is NaN or infinite", "mend or leave out these rows", first)


def check_flags(name: str, part: npt.NDArray[Any], first: int = 0) -> npt.NDArray[np.bool_]:
    """Return a column of flags, which may be given as 0 and 1."""
    if part.dtype.kind not in "fiub":
        raise LogError(f"{name} is {part.dtype}: give True and False, or 1 and 0")
    refuse_rows(~((part == 0) | (part == 1)), f"{name} is neither 0 nor 1", "give True and False, or 1 and 0", first)
    return part.astype(np.bool_)


def check_actions(part: npt.NDArray[Any], first: int = 0) -> npt.NDArray[np.int64]:
    """Return actions, ids (m,) or digits (m, d), as whole numbers."""
    if part.dtype.kind not in "fiu" or part.ndim not in (1, 2):
        raise LogError(f"action is {part.dtype} of shape {part.shape}: give ids (n,) or digits (n, d), whole numbers")
    if part.dtype.kind == "f":  # as pandas has integers with gaps
        whole = np.isfinite(part) & (part == np.floor(part)) & (np.abs(part) < 2**53)
        refuse_rows(~whole.reshape(len(part), -1).all(axis=1), "action is no whole number", "give ids", first)
    return part.astype(np.int64)


def check_propensities(part: npt.NDArray[Any], first: int = 0) -> npt.NDArray[np.float64]:
    """Return the chances that the logging policy gave to what it did."""
    if part.dtype.kind not in "fiu" or part.ndim != 1:
        raise LogError(f"propensity is {part.dtype} of shape {part.shape}: give one number per row")
    chances = part.astype(np.float64)
    refuse_rows(
        ~((chances > 0) & (chances <= 1)), "propensity is not in (0, 1]", "give the chance of the action", first
    )
    return chances


def check_times(times: npt.NDArray[Any], ends: npt.NDArray[np.bool_]) -> None:
    """Refuse times that run backwards within an episode; whole numbers count steps, of which none may be missing."""
    for start in range(0, len(times) - 1, ROWS_AT_ONCE):
        own = np.asarray(times[start : start + ROWS_AT_ONCE + 1])
        if own.dtype.kind not in "fiumM":
            raise LogError(f"time is {own.dtype}: give step numbers, seconds or timestamps")
        inside, is_count = ~ends[start : start + len(own) - 1], own.dtype.kind in "iu"
        if own.dtype.kind == "u":
            own = own.astype(np.int64)
        step, none = np.diff(own), np.zeros(1, np.int64).astype(np.diff(own[:1].repeat(2)).dtype)[0]
        refuse_rows(inside & (step < none), "time runs backwards", "sort each episode by time", start + 1)
        if is_count:
            refuse_rows(inside & (step == 0), "the same step comes twice", "leave out repeated rows", start + 1)
            refuse_rows(
                inside & (step > 1),
                "steps are missing before it",
                "complete the episode or begin another there",
                start + 1,
            )


def check_episodes(episodes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return where an episode's rows end; an episode whose rows do not lie together is refused."""
    change = np.ones(len(episodes), np.bool_)
    change[:-1] = np.asarray(episodes[1:] != episodes[:-1])
    begins = np.concatenate([[True], change[:-1]])
    names, counts = np.unique(np.asarray(episodes[begins]), return_counts=True)
    if (counts > 1).any():
        again = begins & np.isin(episodes, names[counts > 1])
        refuse_rows(again, "an episode's rows do not lie together: it begins", "sort by episode, then by time")
    return change


def check_in_set(actions: npt.NDArray[np.int64], action_set: Any, first: int = 0, what: str = "action") -> None:
    """Refuse actions that are not in the set."""
    shape = action_set.space.shape or ()
    if actions.shape[1:] != shape:
        expected = f"(n, {', '.join(map(str, shape))})" if shape else "(n,)"
        raise LogError(f"{what}s have shape {actions.shape}, those of {action_set!r} have {expected}")
    inside = action_set.holds(actions)
    if not inside.all():
        value = show(actions[int(np.argmin(inside))].tolist())
        refuse_rows(~inside, f"{what} is not in {action_set!r} (such as {value})", "give actions of the set", first)
