"""What may be done in each state of a batch: some of the actions, with or without vectors of their own."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from wolpertinger.settings import show

Actions = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Chosen = slice | npt.NDArray[np.int64]


class NoAllowedActionError(ValueError):
    """A state allows no action at all."""


class UnknownActionError(ValueError):
    """A state allows an action that is not in the set."""


class Allowed:
    """The allowed actions of a batch of states: ids (m,) or digits (m, d) of each, ascending, in any integer type.

    `own_vectors`, if any, are those of these very actions in these states (features that come with the state).
    """

    form: ClassVar[str] = "actions"
    """What a replay buffer calls it."""

    def __init__(self, states: Sequence[npt.NDArray[Any]], own_vectors: Sequence[Vectors] | None = None) -> None:
        if not isinstance(states, list | tuple) and not (isinstance(states, np.ndarray) and states.ndim):
            raise TypeError(f"states={show(states)}: give a list with the allowed actions of each state")
        self.states, self.own_vectors = states, own_vectors

    def __len__(self) -> int:
        return len(self.states)

    @cached_property
    def counts(self) -> Actions:
        """Allowed actions per state (batch,)."""
        return np.fromiter(map(len, self.states), np.int64, len(self.states))

    @cached_property
    def offsets(self) -> Actions:
        """Where each state's begin among `actions`, and where the last one's end (batch + 1,)."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @cached_property
    def actions(self) -> Actions:
        """Those of all states side by side (total, ...)."""
        return np.concatenate(self.states).astype(np.int64, copy=False)

    @cached_property
    def vectors(self) -> Vectors | None:
        """Their own vectors (total, dim), if they have any."""
        return None if self.own_vectors is None else np.concatenate(self.own_vectors)

    def rows(self, chosen: Chosen) -> "Allowed":
        """Those of some of the states."""
        if isinstance(chosen, slice):
            return Allowed(self.states[chosen], None if self.own_vectors is None else self.own_vectors[chosen])
        numbers = chosen.tolist()
        own = None if self.own_vectors is None else [self.own_vectors[number] for number in numbers]
        return Allowed([self.states[number] for number in numbers], own)

    def pick(self, places: npt.NDArray[Any]) -> "Allowed":
        """Some actions of a batch of one state, by place or by a mask, in that order."""
        own = None if self.own_vectors is None else [self.own_vectors[0][places]]
        return Allowed([self.states[0][places]], own)

    def listed(self) -> "Allowed":
        """The same, one by one."""
        return self

    def holds(self, actions: Sequence[Actions] | Actions) -> list[npt.NDArray[np.bool_]]:
        """Which actions of each state, (m, ...) each, are allowed there."""
        return [_among(own, allowed) for own, allowed in zip(actions, self.states, strict=True)]

    def sample(self, rng: np.random.Generator) -> Actions:
        """One of each state's, drawn uniformly (batch, ...)."""
        places = rng.integers(self.counts).tolist()
        return np.array([own[place] for own, place in zip(self.states, places, strict=True)], np.int64)

    def thin(self, rng: np.random.Generator, most: int) -> "Allowed":
        """At most so many of each state, drawn uniformly (with replacement) where there are more."""
        drawn = rng.integers(self.counts[:, None], size=(len(self), most))
        places = [None if len(own) <= most else place for own, place in zip(self.states, drawn, strict=True)]
        return Allowed(
            _some(self.states, places), None if self.own_vectors is None else _some(self.own_vectors, places)
        )

    def pack(self) -> list[npt.NDArray[Any]]:
        """Whole numbers (any,) of each state, from which `unpack` makes it again."""
        return [own.ravel() for own in self.states]

    def unpack(self, packed: Sequence[npt.NDArray[Any]], own_vectors: Sequence[Vectors] | None = None) -> "Allowed":
        """From what `pack` gave, of this or of others of the same form."""
        width = self.states[0].shape[1:]
        return Allowed([row.reshape(-1, *width) for row in packed] if width else packed, own_vectors)

    def only(self, actions: Actions, vectors: Vectors | None = None) -> "Allowed":
        """In the same form: just one action per state (batch, ...)."""
        return Allowed(list(actions[:, None]), None if vectors is None else list(vectors[:, None]))


def _among(own: Actions, allowed: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if not len(own):
        return np.zeros(0, np.bool_)
    if allowed.ndim == 2:
        return (own[:, None] == allowed).all(axis=-1).any(axis=-1)
    place = allowed.searchsorted(own.astype(allowed.dtype, copy=False))
    return allowed.take(place, mode="clip") == own


def _some(rows: Sequence[npt.NDArray[Any]], places: Sequence[npt.NDArray[Any] | None]) -> list[npt.NDArray[Any]]:
    return [row if place is None else row[place] for row, place in zip(rows, places, strict=True)]
