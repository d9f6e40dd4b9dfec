"""What may be done in each state of a batch: some of the actions, with or without vectors of their own."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Actions = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Chosen = slice | npt.NDArray[np.int64]


class NoAllowedActionError(ValueError):
    """A state allows no action at all."""


class UnknownActionError(ValueError):
    """A state allows an action that is not in the set."""


class Allowed:
    """The allowed actions of a batch of states, side by side: ids or digits, ascending in each state.

    `vectors`, if any, are those of these very actions in these states (actions whose features come with the state).
    """

    form: ClassVar[str] = "actions"
    """What a replay buffer calls it."""

    def __init__(self, actions: Actions, offsets: Actions, vectors: Vectors | None = None) -> None:
        self.actions, self.offsets, self.vectors = actions, offsets, vectors

    @classmethod
    def of_rows(cls, rows: Sequence[Actions], vectors: Sequence[Vectors] | None = None) -> "Allowed":
        """From the actions of each state."""
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        return cls(np.concatenate(rows), offsets, None if vectors is None else np.concatenate(vectors))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Actions:
        """Allowed actions per state (batch,)."""
        return np.diff(self.offsets)

    def row(self, number: int) -> Actions:
        """The actions of one state."""
        return self.actions[self.offsets[number] : self.offsets[number + 1]]

    def rows(self, chosen: Chosen) -> "Allowed":
        """Those of some of the states."""
        if isinstance(chosen, slice):
            first, last, _ = chosen.indices(len(self))
            part = slice(self.offsets[first], self.offsets[max(first, last)])
            own = None if self.vectors is None else self.vectors[part]
            return Allowed(self.actions[part], self.offsets[first : max(first, last) + 1] - part.start, own)
        parts = [slice(self.offsets[number], self.offsets[number + 1]) for number in chosen.tolist()]
        if not parts:
            return self.rows(slice(0, 0))
        vectors = None if self.vectors is None else [self.vectors[part] for part in parts]
        return Allowed.of_rows([self.actions[part] for part in parts], vectors)

    def pick(self, places: npt.NDArray[Any]) -> "Allowed":
        """Some actions of a batch of one state, by place or by a mask, in that order."""
        return Allowed.of_rows([self.actions[places]], None if self.vectors is None else [self.vectors[places]])

    def listed(self) -> "Allowed":
        """The same, one by one."""
        return self

    def holds(self, actions: Actions) -> npt.NDArray[np.bool_]:
        """Which actions, m of each state (batch, m, ...), are allowed there (batch, m)."""
        inside = np.empty(actions.shape[:2], np.bool_)
        for number, own in enumerate(actions):
            allowed = self.row(number)
            if allowed.ndim == 2:
                inside[number] = (own[:, None] == allowed).all(axis=-1).any(axis=-1)
            else:
                place = np.minimum(np.searchsorted(allowed, own), len(allowed) - 1)
                inside[number] = allowed[place] == own if len(allowed) else False
        return inside

    def sample(self, rng: np.random.Generator) -> Actions:
        """One of each state's, drawn uniformly (batch, ...)."""
        return self.actions[self.offsets[:-1] + rng.integers(self.counts)]

    def thin(self, rng: np.random.Generator, most: int) -> "Allowed":
        """At most so many of each state, drawn uniformly (with replacement) where there are more."""
        counts = self.counts
        places = np.sort(rng.integers(counts[:, None], size=(len(self), most)), axis=1) + self.offsets[:-1, None]
        whole = np.arange(most) + self.offsets[:-1, None]
        kept = np.arange(most) < counts[:, None]
        flat = np.where(counts[:, None] <= most, whole, places)[kept]
        offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return Allowed(self.actions[flat], offsets, None if self.vectors is None else self.vectors[flat])

    def pack(self) -> list[npt.NDArray[np.int64]]:
        """Whole numbers (any,) of each state, from which `unpack` makes it again."""
        return [self.row(number).ravel() for number in range(len(self))]

    def pack_vectors(self) -> list[Vectors]:
        """The vectors of each state's actions."""
        assert self.vectors is not None
        return np.split(self.vectors, self.offsets[1:-1])

    def unpack(self, packed: Sequence[npt.NDArray[Any]], vectors: Sequence[Vectors] | None = None) -> "Allowed":
        """From what `pack` gave, of this or of others of the same form."""
        width = self.actions.shape[1:]
        return Allowed.of_rows([row.astype(np.int64).reshape(-1, *width) for row in packed], vectors)

    def only(self, actions: Actions, vectors: Vectors | None = None) -> "Allowed":
        """In the same form: just one action per state (batch, ...)."""
        return Allowed(actions, np.arange(len(actions) + 1), vectors)
