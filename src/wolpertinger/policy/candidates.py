"""What sources find: k candidates per state, the same for all states, or as many as each state allows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wolpertinger.actions import Allowed


@dataclass(frozen=True)
class Candidates:
    """The actions that a source found for a batch of states."""

    actions: Tensor
    """Ids (batch, k) or digits (batch, k, d)."""
    source: str
    """Who found them, for explanations."""
    nearest_first: bool = False
    """Whether the first of them is the nearest to the proto-action."""
    is_ordered: ClassVar[bool] = True
    """Whether they come in an order that means something."""
    may_repeat: ClassVar[bool] = False
    """Whether several sources may have found the same action."""

    def blocks(self, size: int) -> Iterator[Tensor]:
        """The candidates in blocks of at most `size` per state (batch, m, ...); (m, ...) where states share them."""
        return iter(torch.split(self.actions, size, dim=1))

    @property
    def only(self) -> Tensor | None:
        """The candidates where there is just one per state (batch, 1, ...); else None."""
        return self.actions if self.actions.shape[1] == 1 else None

    def sources(self, places: np.ndarray) -> np.ndarray:
        """Who found the candidates at these places: text of the same shape."""
        return np.full(places.shape, self.source)


@dataclass(frozen=True)
class SharedCandidates(Candidates):
    """The same candidates for all states."""

    is_ordered: ClassVar[bool] = False
    block: Callable[[int], Iterator[Tensor]] = iter  # type: ignore[assignment]  # always given

    def blocks(self, size: int) -> Iterator[Tensor]:
        return self.block(size)


@dataclass(frozen=True)
class JoinedCandidates(Candidates):
    """Those of several sources side by side."""

    may_repeat: ClassVar[bool] = True
    found_by: tuple[tuple[str, int], ...] = ()
    """The sources in order, and how many candidates each gave."""

    def sources(self, places: np.ndarray) -> np.ndarray:
        return np.concatenate([np.repeat(name, count) for name, count in self.found_by])[places]


class RaggedCandidates(Candidates):
    """Candidates among what each state allows: not as many in each."""

    is_ordered: ClassVar[bool] = False

    def __init__(self, found: Allowed, names: tuple[str, ...], found_by: npt.NDArray[np.uint8] | None = None) -> None:
        super().__init__(torch.empty(len(found), 0), names[0])
        vars(self).update(found=found, names=names, found_by=found_by, may_repeat=len(names) > 1)

    found: Allowed
    """The candidates, side by side."""
    names: tuple[str, ...]
    found_by: npt.NDArray[np.uint8] | None
    """Who found each of them, a number of `names`; None: the first."""

    @classmethod
    def gather(cls, rows: Sequence[Sequence[tuple[str, Allowed]]]) -> "RaggedCandidates":
        """From each state's candidates: those of one or more sources, each of one state."""
        names = tuple(dict.fromkeys(name for row in rows for name, _ in row))
        parts = [[own for _, own in row] for row in rows]
        own = [np.concatenate([part.own_vectors[0] for part in row if part.own_vectors is not None]) for row in parts
               if row[0].own_vectors is not None]  # fmt: skip
        whole = Allowed([np.concatenate([part.states[0] for part in row]) for row in parts], own or None)
        codes = [names.index(name) for row in rows for name, _ in row]
        counts = [len(part.states[0]) for row in parts for part in row]
        return cls(whole, names, np.repeat(np.array(codes, np.uint8), counts))

    def of_state(self, number: int, kept: npt.NDArray[np.bool_]) -> list[tuple[str, Allowed]]:
        """What is kept of one state's candidates, by their finders."""
        own = self.found.rows(slice(number, number + 1))
        if self.found_by is None:
            by = np.zeros(len(kept), np.uint8)
        else:
            by = self.found_by[self.found.offsets[number] : self.found.offsets[number + 1]]
        codes = [code for code in range(len(self.names)) if (kept & (by == code)).any()]
        return [(self.names[code], own.pick(kept & (by == code))) for code in codes]

    @property
    def only(self) -> Tensor | None:
        if (self.found.counts != 1).any():
            return None
        return torch.from_numpy(self.found.actions).unsqueeze(1)

    def sources(self, places: np.ndarray) -> np.ndarray:
        counts = self.found.counts[:, None]
        if self.found_by is None:
            named = np.full(places.shape, self.source)
        else:
            named = np.asarray(self.names)[
                self.found_by[self.found.offsets[:-1, None] + np.minimum(places, counts - 1)]
            ]
        return np.where(places < counts, named, "")
