"""The largest inner products, as nearest neighbours: with one coordinate more, all vectors are equally long."""

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Vectors, check_queries, check_vectors
from wolpertinger.index.promise import PromisedIndex, likely_queries
from wolpertinger.index.store import Store
from wolpertinger.index.tune import BUILD_SECONDS

GUESSED = 64  # queries to tune on beside those that were asked


class InnerProductIndex:
    """Ids of the vectors (n, dim) with the largest products with a query, at a promised recall.

    A vector x becomes (x, sqrt(r^2 - |x|^2)) with r the length of the longest one, a query q becomes (q, 0). Then
    |x - q|^2 = r^2 + |q|^2 - 2 x.q: the nearest one has the largest product. `like` is the index over the same vectors
    before they moved, whose recipe is tried first.
    """

    def __init__(
        self,
        vectors: npt.ArrayLike,
        promise: float,
        *,
        like: "InnerProductIndex | None" = None,
        build_seconds: float = BUILD_SECONDS,
    ) -> None:
        table = check_vectors(vectors)
        squares = np.einsum("ij,ij->i", table, table, dtype=np.float64)
        self._radius = float(np.sqrt(squares.max()))
        room = np.sqrt(np.maximum(self._radius**2 - squares, 0)).astype(np.float32)
        longer = np.concatenate([table, room[:, None]], axis=1)
        self._index = PromisedIndex(longer, promise, build_seconds=build_seconds, likely=self._likely)
        if like is not None:
            self._index.follow(like._index)

    @property
    def n(self) -> int:
        """How many vectors there are."""
        return self._index.n

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return self._index.dim - 1

    @property
    def tuning_seconds(self) -> float:
        """Spent on building and tuning, in all."""
        return self._index.tuning_seconds

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Ids (batch, k) of the vectors with the largest products with each query (batch, dim), largest first."""
        return self._index.search(self._lengthen(check_queries(queries, self.dim)), k)

    def _lengthen(self, queries: Vectors) -> Vectors:
        """As long as the vectors are, which changes no order, and into their space."""
        lengths = np.linalg.norm(queries.astype(np.float64), axis=1, keepdims=True)
        scaled = queries * (self._radius / np.where(lengths > 0, lengths, 1.0))
        return np.pad(scaled.astype(np.float32), ((0, 0), (0, 1)))

    def _likely(self, store: Store, count: int) -> Vectors:
        """Directions of vectors, with noise: a few, as little is known of the queries before they come."""
        return self._lengthen(likely_queries(store, min(count, GUESSED))[:, :-1])
