"""The action set A: what a set must say of itself, and what follows from that."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import prod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions.allowed import Allowed
from wolpertinger.actions.nearest_allowed import nearest_among
from wolpertinger.archive import Buffer
from wolpertinger.index.base import read_ids
from wolpertinger.settings import check_kind, check_memory, check_number, show

MAX_CANDIDATES = 2**24  # that a share may come to: a share of a huge set is hardly what was meant
MAX_ID = 2**63  # ids are 64-bit integers
FINGERPRINTED = 1_000  # actions whose vectors stand for the set in the default fingerprint

Floats = npt.NDArray[np.floating[Any]]
Actions = npt.NDArray[np.int64]
ActionSpace = spaces.Discrete | spaces.MultiDiscrete


class TooManyActionsError(ValueError):
    """The set has too many actions to go through all of them."""


class ActionSet(ABC):
    """A set of discrete actions, each with a vector. Arrays go in and come out as numpy.

    A set of your own says `space`, `n`, `dim`, `low`, `high`, `embed` and `nearest`; everything else has a default.
    """

    kind: ClassVar[str | None] = None
    """What a checkpoint calls sets that it can hold; None: the file holds the fingerprint only."""
    has_offered_vectors: ClassVar[bool] = False
    """Whether vectors come with the state: there are none but those that it offers beside the ids."""
    is_changeable: ClassVar[bool] = False
    """Whether actions can be added and removed."""
    slots: int | None = None
    """Items of a slate, where actions are slates."""

    @property
    @abstractmethod
    def space(self) -> ActionSpace:
        """What the environment takes: ids (`Discrete`) or digits (`MultiDiscrete`)."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of actions: a Python int, which may be 2**100."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Length of an action's vector."""

    @property
    @abstractmethod
    def low(self) -> Floats:
        """Smallest coordinate of any action, per dimension (dim,)."""

    @property
    @abstractmethod
    def high(self) -> Floats:
        """Largest coordinate of any action, per dimension (dim,)."""

    @abstractmethod
    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Vectors of actions: ids (...) or digits (..., d) become (..., dim)."""

    @abstractmethod
    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """The k distinct actions closest to each proto-action (batch, dim), nearest first: (batch, k, ...)."""

    def nearest_at_most(self, protos: npt.ArrayLike, k: int) -> Actions:
        """The k nearest, or all, where there are fewer: another thread may have removed some since k was chosen."""
        while True:
            n = self.n
            try:
                return self.nearest(protos, min(k, n))
            except ValueError:
                if self.n >= n:
                    raise

    def nearest_allowed(self, protos: npt.NDArray[np.floating], k: int, allowed: Allowed) -> Allowed:
        """The k of each state's allowed actions that are closest to its proto-action, nearest first; all, if fewer."""
        return nearest_among(self, protos, k, allowed)

    @property
    def factors(self) -> tuple[int, ...] | None:
        """Levels of each factor where the set is a product, by which a state may say what it allows; else None."""
        return tuple(self.space.nvec.tolist()) if isinstance(self.space, spaces.MultiDiscrete) else None

    @property
    def levels(self) -> tuple[Floats, ...] | None:
        """The levels of each factor, (i,) or (i, m), if an action's vector is one of each side by side; else None."""
        return None

    @property
    def version(self) -> int:
        """Changes whenever actions are added or removed."""
        return 0

    @property
    def sha256(self) -> str:
        """Fingerprint of the set, by which a checkpoint recognises it: here of its size, bounds and a sample."""
        sample = self.sample(np.random.default_rng(0), FINGERPRINTED)
        digest = hashlib.sha256(f"{type(self).__name__} {self.n} {self.dim}".encode())
        for part in (self.low, self.high, self.embed(sample)):
            digest.update(np.ascontiguousarray(part, np.float32).tobytes())
        return digest.hexdigest()

    def first_sha256(self, count: int) -> str | None:
        """Fingerprint of the first `count` actions, as if none had been removed, where a set grows by ids that follow:
        what was learned of that set holds for this one. None: there are not so many, or the set does not grow.
        """
        return None

    def sample(self, rng: np.random.Generator, n: int) -> Actions:
        """n actions drawn uniformly: ids (n,) or digits (n, d)."""
        return sample_space(self.space, rng, n)

    def sample_vectors(self, rng: np.random.Generator, n: int) -> npt.NDArray[np.float32]:
        """Vectors (n, dim) of such actions, by which networks scale them."""
        return self.embed(self.sample(rng, n))

    def holds(self, actions: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each of these actions is in the set: ids (...) or digits (..., d) become (...)."""
        sizes, given = _sizes(self.space), read_ids(actions)
        if given.shape[given.ndim - np.ndim(sizes) :] != np.shape(sizes):
            raise ValueError(f"actions have shape {given.shape}: give (..., {len(sizes)}), one digit per factor")
        inside = (given >= 0) & (given < sizes)
        return inside if isinstance(self.space, spaces.Discrete) else inside.all(axis=-1)

    def blocks(self, size: int) -> Iterator[Actions]:
        """Every action once, in blocks of at most `size`: ids (m,) or digits (m, d). Raises TooManyActionsError."""
        check_number("size", size, least=1, whole=True)
        if not self.is_listable:
            raise TooManyActionsError(f"{self!r} is too large to go through: {show(self.n)} actions")
        return (self._members(start, min(start + size, self.n)) for start in range(0, self.n, size))

    def add(self, vectors: npt.ArrayLike) -> Actions:
        """New actions with these vectors (new, dim), where a set can grow; returns their ids."""
        raise TypeError(f"{self!r} is fixed: actions are added to and removed from tables")

    def remove(self, actions: npt.ArrayLike) -> None:
        """Take actions out, where a set can shrink."""
        raise TypeError(f"{self!r} is fixed: actions are added to and removed from tables")

    @property
    def is_listable(self) -> bool:
        """Whether `blocks` can go through the set: its actions have ids of 63 bits."""
        return self.n < MAX_ID

    @property
    def is_ordinal(self) -> bool:
        """Whether an action between two others does about what lies between them, as the levels of a control."""
        return False

    @property
    def is_numbered(self) -> bool:
        """Whether vectors are just the actions' numbers in binary, as those of `ActionIds`."""
        return False

    def _members(self, start: int, stop: int) -> Actions:
        ids = np.arange(start, stop)
        if isinstance(self.space, spaces.Discrete):
            return ids
        return np.stack(np.unravel_index(ids, self.space.nvec), axis=-1)

    def only(self, actions: Actions) -> "ActionSet | None":
        """A set of just these actions, ids (m,) or digits (m, d), under the same ids; None where there is no such."""
        return None

    def stats(self, k: int) -> dict[str, float | str]:
        """What the log shows of lookups for k: recall and index, if they are approximate; `tuning_seconds`."""
        return {}

    def with_space(self, space: ActionSpace) -> "ActionSet":
        """The same actions in the form of another space of the same size, if the set has that form too."""
        return self

    def to_files(self) -> Mapping[str, Buffer]:
        """What a checkpoint holds of the set, by file name; `from_files` of the same `kind` reads it."""
        return {}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Self:
        """The set from what `to_files` gave."""
        raise TypeError(f"{cls.__name__} is not held in files: give actions= to load")


def sample_space(space: spaces.Space, rng: np.random.Generator, n: int) -> Actions:
    """n actions drawn uniformly from a Discrete or MultiDiscrete space: ids (n,) or digits (n, d)."""
    check_draw(rng, n, int(np.prod(space.shape or (1,))))
    if isinstance(space, spaces.MultiDiscrete):
        return rng.integers(space.nvec, size=(n, *space.nvec.shape))
    assert isinstance(space, spaces.Discrete)
    return rng.integers(int(space.n), size=n)


def check_draw(rng: Any, n: Any, numbers: int) -> None:
    """Refuse what is no generator, or no number of actions, of so many numbers each, to draw with it."""
    check_kind("rng", rng, np.random.Generator, "a generator, np.random.default_rng(seed)")
    check_number("n", n, whole=True)
    check_memory(f"n={n:,} actions", 8 * n * numbers)


def count_actions(space: spaces.Space) -> int:
    """Number of actions in a Discrete or MultiDiscrete space, as a Python int."""
    return prod(int(n) for n in np.ravel(_sizes(space)))


def same_actions(space: spaces.Space, other: spaces.Space) -> bool:
    """Whether two spaces hold the same actions, whatever their integer type."""
    if isinstance(space, spaces.Discrete):
        return isinstance(other, spaces.Discrete) and space.n == other.n
    return isinstance(other, spaces.MultiDiscrete) and np.array_equal(_sizes(space), other.nvec)


def _sizes(space: Any) -> Any:
    return space.n if isinstance(space, spaces.Discrete) else space.nvec


def resolve_k(k: int | float, n: int) -> int:
    """Turn k, a count (int) or a share of A (float in (0, 1]), into a count between 1 and n; shares round down."""
    accepted = f"a count from 1 to {show(n)} (int) or a share of A in (0, 1] (float)"
    if isinstance(k, bool) or not isinstance(k, Real):
        raise TypeError(f"k={show(k)} is not a number: give {accepted}")
    if isinstance(k, Integral):
        if not 1 <= k <= n:
            raise ValueError(f"k={show(int(k))} is out of range for {show(n)} actions: give {accepted}")
        return int(k)
    if not 0 < k <= 1:
        raise ValueError(f"k={k!r} is not a share: give {accepted}")
    # Exact for any n: 0.29 * 100 is 28.999999999999996 in floats, and 2**100 does not fit one.
    count = max(1, int(Fraction(repr(float(k))) * n))
    if count > MAX_CANDIDATES:
        found = f"k={k} of {show(n)} actions are {show(count)} candidates"
        raise ValueError(f"{found}: give a count of {MAX_CANDIDATES} at most")
    return count
