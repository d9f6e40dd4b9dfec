"""The action set A: what the agent needs to know of it, and how k is read."""

from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

MOST_CANDIDATES = 2**24  # that a share may come to: a share of a huge set is hardly what was meant

Floats = npt.NDArray[np.floating[Any]]
Actions = npt.NDArray[np.int64]


@runtime_checkable
class ActionSet(Protocol):
    """A set of discrete actions, each with a vector. Arrays go in and come out as numpy."""

    @property
    def space(self) -> spaces.Discrete | spaces.MultiDiscrete:
        """What the environment takes: ids (`Discrete`) or digits (`MultiDiscrete`)."""

    @property
    def n(self) -> int:
        """How many actions there are: a Python int, which may be 2**100."""

    @property
    def dim(self) -> int:
        """Numbers in an action's vector."""

    @property
    def low(self) -> Floats:
        """Smallest coordinate of any action, per dimension (dim,)."""

    @property
    def high(self) -> Floats:
        """Largest coordinate of any action, per dimension (dim,)."""

    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Vectors of actions: ids (...) or digits (..., d) become (..., dim)."""

    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """The k distinct actions closest to each proto-action (batch, dim), nearest first: (batch, k, ...)."""


def resolve_k(k: int | float, n: int) -> int:
    """Turn k, a count (int) or a share of A (float in (0, 1]), into a count between 1 and n; shares round down."""
    accepted = f"a count from 1 to {n} (int) or a share of A in (0, 1] (float)"
    if isinstance(k, bool) or not isinstance(k, Real):
        raise TypeError(f"k={k!r} is not a number: give {accepted}")
    if isinstance(k, Integral):
        if not 1 <= k <= n:
            raise ValueError(f"k={k} is out of range for {n} actions: give {accepted}")
        return int(k)
    if not 0 < k <= 1:
        raise ValueError(f"k={k!r} is not a share: give {accepted}")
    # Exact for any n: 0.29 * 100 is 28.999999999999996 in floats, and 2**100 does not fit one.
    count = max(1, int(Fraction(repr(float(k))) * n))
    if count > MOST_CANDIDATES:
        raise ValueError(f"k={k!r} of {n} actions are {count} candidates: give a count of {MOST_CANDIDATES} at most")
    return count
