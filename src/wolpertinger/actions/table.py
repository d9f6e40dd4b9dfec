"""An action set given as a table: one vector per action."""

import hashlib
from functools import cached_property

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions.base import Actions
from wolpertinger.index import build, check_vectors

HASHED_ROWS = 1 << 16  # at a time


class ActionTable:
    """Actions 0..n-1, each with a row of `vectors` (n, dim), and an index that finds the rows nearest to a point.

    `index` is "exact", "auto" or a FAISS recipe; `recall` is the least share of the true neighbours to be found.
    Float32 in C order is used without a copy, memory-mapped or not: do not change it afterwards.
    """

    def __init__(self, vectors: npt.ArrayLike, *, index: str = "exact", recall: float | None = None) -> None:
        if recall is not None:
            index = _index_for_recall(index, recall)
        table = check_vectors(vectors)
        self._index = build(index, table)
        self._index_name = index
        self._vectors = table.view()
        self._vectors.flags.writeable = False
        self._space = spaces.Discrete(len(table))

    @property
    def space(self) -> spaces.Discrete:
        """The ids of the actions."""
        return self._space

    @property
    def n(self) -> int:
        """How many actions there are."""
        return len(self._vectors)

    @property
    def dim(self) -> int:
        """Numbers in an action's vector."""
        return self._vectors.shape[1]

    @property
    def index(self) -> str:
        """The index it was made with: "exact", "auto" or a FAISS recipe."""
        return self._index_name

    @property
    def vectors(self) -> npt.NDArray[np.float32]:
        """The table (n, dim), read-only."""
        return self._vectors

    @cached_property
    def low(self) -> npt.NDArray[np.float32]:
        """Smallest coordinate of any action, per dimension (dim,)."""
        return self._vectors.min(axis=0)

    @cached_property
    def high(self) -> npt.NDArray[np.float32]:
        """Largest coordinate of any action, per dimension (dim,)."""
        return self._vectors.max(axis=0)

    @cached_property
    def sha256(self) -> str:
        """Fingerprint of the vectors: their type, shape and bytes."""
        digest = hashlib.sha256(f"{self._vectors.dtype.str} {self._vectors.shape}".encode())
        for start in range(0, self.n, HASHED_ROWS):
            digest.update(self._vectors[start : start + HASHED_ROWS].data)
        return digest.hexdigest()

    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Vectors (..., dim) of the actions with these ids (...)."""
        return self._vectors[check_actions(actions, self.n)]

    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """Ids (batch, k) of the distinct actions closest to each proto-action (batch, dim), nearest first."""
        return self._index.search(protos, k)

    def __repr__(self) -> str:
        return f"ActionTable(n={self.n}, dim={self.dim}, index={self._index_name!r})"


def _index_for_recall(index: str, recall: float) -> str:
    """The index that promises this recall: the exact scan finds every neighbour."""
    if isinstance(recall, bool) or not isinstance(recall, int | float):
        raise TypeError(f"recall={recall!r} is not a number: give a share in (0, 1]")
    if not 0 < recall <= 1:
        raise ValueError(f"recall={recall!r} is not a share of the true neighbours: give a number in (0, 1]")
    if index not in ("exact", "auto"):
        raise ValueError(
            f"recall={recall!r} cannot be promised by index={index!r}, whose parameters are fixed: "
            'give recall with index="exact" or "auto", or leave it out'
        )
    return "exact"


def check_actions(actions: npt.ArrayLike, n: int | npt.NDArray[np.int64]) -> Actions:
    """Actions as int64, if they are integers from 0 to n - 1 (n may be per digit)."""
    array = np.asarray(actions)
    if array.dtype.kind not in "iu":
        raise TypeError(f"actions are of type {array.dtype}: give integers, the ids or digits of actions")
    outside = (array < 0) | (array >= n)
    if outside.any():
        top = int(np.max(n)) - 1
        raise ValueError(f"action {array[outside].flat[0]} is not in the set: give ids or digits from 0 to {top}")
    return array.astype(np.int64, copy=False)
