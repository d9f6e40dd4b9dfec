"""An action set without vectors: actions that are known by their number only."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions.base import Actions, ActionSet, check_draw
from wolpertinger.archive import Buffer, read_json, readable
from wolpertinger.index import Index, Store, build, check_ids
from wolpertinger.settings import check_number

CONFIG = "ids.json"
MAX_IDS = 2**20  # learned rows, which every update of the optimiser goes through


class ActionIds(ActionSet):
    """n actions that are known by their number only; what each does is learned, action by action.

    An action's vector is its number in binary, as -1 and 1, lowest bit first: it tells actions apart and says nothing
    of what they do. The default critic has a learned row for each.
    """

    kind = "ids"

    def __init__(self, n: int, *, _there: Actions | None = None) -> None:
        check_number("n", n, least=1, whole=True)
        if n > MAX_IDS:
            raise ValueError(
                f"n={n:,}: {MAX_IDS:,} actions at most are learned one by one; "
                "give ActionTable(vectors) or ActionProduct(levels), which say what actions have in common"
            )
        self._space = spaces.Discrete(int(n))
        self._bits = np.arange(max(1, (int(n) - 1).bit_length()))
        self._there = _there  # ids, ascending; None: all

    @property
    def space(self) -> spaces.Discrete:
        """The ids."""
        return self._space

    @property
    def n(self) -> int:
        """Number of actions."""
        return int(self._space.n) if self._there is None else len(self._there)

    @property
    def dim(self) -> int:
        """Bits of a number."""
        return len(self._bits)

    @property
    def low(self) -> npt.NDArray[np.float32]:
        """-1 in every dimension."""
        return np.full(self.dim, -1, np.float32)

    @property
    def high(self) -> npt.NDArray[np.float32]:
        """1 in every dimension, if there is more than one action."""
        return np.full(self.dim, 1 if self._space.n > 1 else -1, np.float32)

    @property
    def is_numbered(self) -> bool:
        """True: vectors are numbers in binary."""
        return True

    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """The ids (...) in binary, as -1 and 1 (..., dim)."""
        ids = check_ids(actions, int(self._space.n))
        return (2 * (ids[..., None] >> self._bits & 1) - 1).astype(np.float32)

    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """Ids (batch, k) of the distinct actions closest to each proto-action (batch, dim), nearest first."""
        return self._index.search(protos, k)

    @cached_property
    def _index(self) -> Index:  # over all vectors, for those who look for neighbours where there is no neighbourhood
        store = Store(self.embed(np.arange(int(self._space.n))))
        if self._there is not None:
            store.remove(np.setdiff1d(np.arange(store.size), self._there))
        return build("exact", store)

    def only(self, actions: Actions) -> "ActionIds":
        """Just these actions, under the same ids."""
        return ActionIds(int(self._space.n), _there=np.unique(np.asarray(actions)[self.holds(actions)]))

    def holds(self, actions: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which of these ids (...) are there."""
        inside = super().holds(actions)
        return inside if self._there is None else inside & np.isin(actions, self._there)

    def sample(self, rng: np.random.Generator, n: int) -> Actions:
        """Ids (n,) drawn uniformly from those that are there."""
        check_draw(rng, n, 1)
        drawn = rng.integers(self.n, size=n)
        return drawn if self._there is None else self._there[drawn]

    def _members(self, start: int, stop: int) -> Actions:
        return np.arange(start, stop) if self._there is None else self._there[start:stop]

    def to_files(self) -> Mapping[str, Buffer]:
        """How many there are, and which, if not all."""
        there = {} if self._there is None else {"only": self._there.tolist()}
        return {CONFIG: json.dumps({"n": int(self._space.n), **there}).encode()}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Self:
        """The set from what `to_files` gave."""
        with readable(CONFIG):
            config = read_json(files[CONFIG])
            made = cls(config["n"])
            if "only" not in config:
                return made
            there = np.asarray(config["only"])
            if there.ndim != 1 or there.dtype.kind != "i" or not there.size or not made.holds(there).all():
                raise ValueError("only: ids of the set are needed")
            return cls(config["n"], _there=np.unique(there))

    def __repr__(self) -> str:
        return f"ActionIds({self._space.n})" if self._there is None else f"{self.n:,} of ActionIds({self._space.n})"
