"""Actions whose vectors come with the state: a hand of cards, the routes from here."""

import hashlib

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions.base import Actions, ActionSet, Floats, check_draw
from wolpertinger.index import as_array
from wolpertinger.settings import check_number, show

MAX_DIM = 2**20


class OfferedActions(ActionSet):
    """Ids 0..n-1 whose vectors (dim,) are not known in advance: every state offers its actions as (ids, vectors).

    :param low: smallest coordinate of any vector, a number or one per dimension; high: the largest.
    """

    has_offered_vectors = True

    def __init__(self, n: int, dim: int, *, low: npt.ArrayLike = -1.0, high: npt.ArrayLike = 1.0) -> None:
        check_number("n", n, least=1, whole=True)
        check_number("dim", dim, least=1, most=MAX_DIM, whole=True)
        self._n, self._dim = int(n), int(dim)
        self._low, self._high = (self._bound(name, given) for name, given in (("low", low), ("high", high)))
        if not (np.isfinite(self._low) & np.isfinite(self._high) & (self._low <= self._high)).all():
            raise ValueError(f"low={show(low)}, high={show(high)}: give finite numbers, low not above high")

    def _bound(self, name: str, given: npt.ArrayLike) -> npt.NDArray[np.float32]:
        array = as_array(name, given)
        if array.dtype.kind not in "fiu" or array.shape not in ((), (self._dim,)):
            raise ValueError(f"{name}={show(given)}: give a number, or one for each of {self._dim} dimensions")
        with np.errstate(over="ignore"):
            return np.full(self._dim, array, np.float32)

    @property
    def space(self) -> spaces.Discrete:
        """The ids."""
        return spaces.Discrete(self._n)

    @property
    def n(self) -> int:
        """How many ids there are."""
        return self._n

    @property
    def dim(self) -> int:
        """Length of an action's vector."""
        return self._dim

    @property
    def low(self) -> Floats:
        """Smallest coordinate, per dimension (dim,)."""
        return self._low

    @property
    def high(self) -> Floats:
        """Largest coordinate, per dimension (dim,)."""
        return self._high

    @property
    def sha256(self) -> str:
        """Fingerprint of ids and bounds."""
        digest = hashlib.sha256(f"offered {self._n} {self._dim}".encode())
        digest.update(self._low.tobytes() + self._high.tobytes())
        return digest.hexdigest()

    def embed(self, actions: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Not known without the state."""
        raise ValueError(f"{self!r}: vectors come with the state; the environment must say what it allows")

    def sample_vectors(self, rng: np.random.Generator, n: int) -> npt.NDArray[np.float32]:
        """Any in the box: which ones there are is not known."""
        check_draw(rng, n, self._dim)
        return rng.uniform(self._low, self._high, (n, self._dim)).astype(np.float32)

    def nearest(self, protos: npt.ArrayLike, k: int) -> Actions:
        """Not known without the state."""
        raise ValueError(f"{self!r}: vectors come with the state; the environment must say what it allows")

    def __repr__(self) -> str:
        return f"OfferedActions(n={self._n}, dim={self._dim})"
