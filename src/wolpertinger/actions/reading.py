"""What users and environments say is allowed, in whichever form, as `Allowed`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions.allowed import Actions, Allowed, NoAllowedActionError, UnknownActionError, Vectors
from wolpertinger.actions.allowed_levels import AllowedLevels, Levels
from wolpertinger.actions.base import ActionSet
from wolpertinger.actions.slate import AllowedItems, Slate, read_items
from wolpertinger.index import as_array
from wolpertinger.settings import show

FORMS = "ids (m,) or digits (m, d), a mask, Levels([...]), or a pair (ids, vectors)"
Where = Callable[[int], str]


def read_allowed(given: Any, actions: ActionSet, where: Where = "state {}".format) -> Allowed:
    """What a batch of states allows, checked: each state's as actions, a mask, `Levels` or (actions, vectors).

    Masks are for `Discrete` one flag per action, for `MultiDiscrete` one per level of every factor, side by side, as
    sb3-contrib has them. `where` names a state in errors.
    """
    if type(given) is Allowed:  # the user's own: none of ours comes here
        own = given.own_vectors
        given = given.states if own is None else list(zip(given.states, own, strict=False))
    if isinstance(given, Allowed):
        return given
    if isinstance(actions, Slate):
        return read_items(read_allowed(given, actions.items, where), actions, where)
    if _are_plain(given, actions):
        return Allowed(list(given))
    rows = [_read_mask(row, actions, where(number)) for number, row in enumerate(given)]
    if any(isinstance(row, Levels) for row in rows):
        return _read_levels(rows, actions, where)
    pairs = [row if isinstance(row, tuple) else (row, None) for row in rows]
    read = [_read_row(own, vectors, actions, where(number)) for number, (own, vectors) in enumerate(pairs)]
    return _check(read, actions, where)


def _are_plain(given: Any, actions: ActionSet) -> bool:
    """Whether all rows are ascending ids of a set without gaps, whose first and last tell that all are in it."""
    space, n = actions.space, actions.n
    if not isinstance(space, spaces.Discrete) or n != space.n or actions.has_offered_vectors:
        return False
    return all(
        type(row) is np.ndarray and row.dtype == np.int64 and row.ndim == 1 and row.size > 0
        and row[0] >= 0 and row[-1] < n and (row[1:] > row[:-1]).all()
        for row in given
    )  # fmt: skip


def empty_allowed(actions: ActionSet, form: str) -> Allowed:
    """What allows nothing, in a form: its `unpack` makes that of any number of states."""
    if form == "items":
        assert isinstance(actions, Slate)
        return AllowedItems([], actions.slots, actions.repeats)
    if form == "levels":
        assert actions.factors is not None
        has_ids = isinstance(actions.space, spaces.Discrete)
        sizes = np.asarray(actions.factors, np.int64)
        return AllowedLevels(np.empty(0, np.int64), np.zeros(1, np.int64), sizes, has_ids)
    return Allowed([np.empty((0, *(actions.space.shape or ())), np.int64)])


def _read_mask(row: Any, actions: ActionSet, where: str) -> Any:
    """A mask becomes the actions or levels that it allows; all else stays."""
    if isinstance(row, tuple) and len(row) != 2:
        raise ValueError(f"{where} allows a tuple of {len(row)}: give {FORMS}")
    if isinstance(row, Levels | tuple):
        return row
    array = as_array(where, row)
    if array.dtype != np.bool_:
        return array
    space = actions.space
    sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()
    if array.shape != (sum(sizes),):
        raise ValueError(f"{where}: a mask of shape {array.shape}; give ({sum(sizes)},), or {FORMS}")
    if isinstance(space, spaces.Discrete):
        return np.flatnonzero(array)
    return Levels([np.flatnonzero(part) for part in np.split(array, np.cumsum(sizes)[:-1])])


def _read_row(own: Any, vectors: Any, actions: ActionSet, where: str) -> tuple[Actions, Vectors | None]:
    array, shape = as_array(where, own), actions.space.shape or ()
    if array.size == 0:
        raise NoAllowedActionError(f"{where} allows no action: at least one must be allowed in every state")
    if array.dtype.kind not in "iu" or array.ndim == 0 or array.shape[1:] != shape:
        expected = f"(m, {', '.join(map(str, shape))})" if shape else "(m,)"
        raise ValueError(f"{where} allows {array.dtype} of shape {array.shape}: give integers {expected}, or {FORMS}")
    if (vectors is None) == actions.has_offered_vectors:
        wrong = "comes without vectors: give (ids, vectors)" if vectors is None else "has vectors of its own: give ids"
        raise ValueError(f"{where}: what it allows of {actions!r} {wrong}")
    if vectors is None:
        return array.astype(np.int64, copy=False), None
    own_vectors = as_array(f"{where}, vectors", vectors)
    fits = own_vectors.dtype.kind in "fiu" and own_vectors.shape == (len(array), actions.dim)
    with np.errstate(over="ignore"):
        own_vectors = own_vectors.astype(np.float32, copy=False) if fits else own_vectors
    if not fits or not np.isfinite(own_vectors).all():
        raise ValueError(
            f"{where} allows {len(array)} actions with vectors of shape {own_vectors.shape}: "
            f"give finite ones of ({len(array)}, {actions.dim})"
        )
    return array.astype(np.int64, copy=False), own_vectors


def _check(rows: list[tuple[Actions, Vectors | None]], actions: ActionSet, where: Where) -> Allowed:
    """All states, each one's actions in ascending order, if they are in the set."""
    for number, (own, _) in enumerate(rows):
        if not (inside := actions.holds(own)).all():
            raise UnknownActionError(
                f"{where(number)} allows action {own[np.argmin(inside)]}, which is not in {actions!r}"
            )
    ordered = [pair if _is_ascending(pair[0]) else place_in_order(*pair) for pair in rows]
    vectors = [own for _, own in ordered if own is not None]
    return Allowed([own for own, _ in ordered], vectors or None)


def _is_ascending(own: Actions) -> bool:
    return own.ndim == 1 and bool((own[1:] > own[:-1]).all())  # digits are put in order in any case


def place_in_order(actions: Actions, vectors: Vectors | None) -> tuple[Actions, Vectors | None]:
    """One state's actions in ascending order, each once."""
    ordered, first = np.unique(actions, axis=0, return_index=True)
    return ordered, None if vectors is None else vectors[first]


def _read_levels(rows: Sequence[Any], actions: ActionSet, where: Where) -> AllowedLevels:
    sizes = actions.factors
    if sizes is None or not all(isinstance(row, Levels) for row in rows):
        raise ValueError(
            f"Levels are for sets that are a product, in all states of a batch alike: {actions!r}; give {FORMS}"
        )
    checked = [_check_levels(row, sizes, where(number)) for number, row in enumerate(rows)]
    return AllowedLevels.of_states(
        checked, np.asarray(sizes, np.int64), has_ids=isinstance(actions.space, spaces.Discrete)
    )


def _check_levels(row: Levels, sizes: Sequence[int], where: str) -> list[Actions]:
    levels: list[npt.NDArray[Any]] = [as_array(where, factor).ravel() for factor in row.of]
    if len(levels) != len(sizes):
        raise ValueError(f"{where} allows levels of {len(levels)} factors: give those of {len(sizes)}")
    for number, (own, size) in enumerate(zip(levels, sizes, strict=True)):
        if own.size == 0:
            raise NoAllowedActionError(f"{where} allows no level of factor {number}: at least one must be allowed")
        if own.dtype.kind not in "iu" or own.min() < 0 or own.max() >= size:
            raise UnknownActionError(f"{where} allows {show(own)} of factor {number}: give levels from 0 to {size - 1}")
    return [np.unique(own).astype(np.int64, copy=False) for own in levels]
