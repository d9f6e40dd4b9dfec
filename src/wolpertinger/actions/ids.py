"""An action set without vectors: actions that are known by their number only."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions.base import Actions, ActionSet
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

    def __init__(self, n: int) -> None:
        check_number("n", n, least=1, whole=True)
        if n > MAX_IDS:
            raise ValueError(
                f"n={n:,}: {MAX_IDS:,} actions at most are learned one by one; "
                "give ActionTable(vectors) or ActionProduct(levels), which say what actions have in common"
            )
        self._space = spaces.Discrete(int(n))
        self._bits = np.arange(max(1, (int(n) - 1).bit_length()))

    @property
    def space(self) -> spaces.Discrete:
        """The ids."""
        return self._space

    @property
    def n(self) -> int:
        """Number of actions."""
        return int(self._space.n)

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
        return np.full(self.dim, 1 if self.n > 1 else -1, np.float32)

    @property
    def is_numbered(self) -> bool:
        """True: vectors are numbers in binary."""
        return True

    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """The ids (...) in binary, as -1 and 1 (..., dim)."""
        ids = check_ids(actions, self.n)
        return (2 * (ids[..., None] >> self._bits & 1) - 1).astype(np.float32)

    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """Ids (batch, k) of the distinct actions closest to each proto-action (batch, dim), nearest first."""
        return self._index.search(protos, k)

    @cached_property
    def _index(self) -> Index:  # over all vectors, for those who look for neighbours where there is no neighbourhood
        return build("exact", Store(self.embed(np.arange(self.n))))

    def to_files(self) -> Mapping[str, Buffer]:
        """How many there are."""
        return {CONFIG: json.dumps({"n": self.n}).encode()}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Self:
        """The set from what `to_files` gave."""
        with readable(CONFIG):
            return cls(read_json(files[CONFIG])["n"])

    def __repr__(self) -> str:
        return f"ActionIds({self.n})"
