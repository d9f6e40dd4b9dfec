"""The largest inner products: by a product with all vectors, or as nearest neighbours of longer ones."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wolpertinger.index.base import Ids, Vectors, check_queries, check_vectors
from wolpertinger.index.promise import PromisedIndex, likely_queries
from wolpertinger.index.store import Store
from wolpertinger.index.tune import BUILD_SECONDS

GUESSED = 64  # queries to tune on beside those that were asked
CACHED = 2**19  # products at a time, 2 MB: with four million of them 13,138 vectors took three times as long
LEAST_ROWS = 32  # queries at a time, however many vectors there are: these are read once for all of them
SEGMENT = 64  # products whose largest is looked at first


@torch.no_grad()
def largest_products(queries: Tensor, vectors: Tensor, k: int) -> Tensor:
    """Places (batch, k) of the vectors (n, dim) whose products with each query (batch, dim) are largest, in order."""
    rows = max(LEAST_ROWS, CACHED // len(vectors))
    memory = queries.new_empty(min(rows, len(queries)), len(vectors))
    parts = (torch.mm(part, vectors.t(), out=memory[: len(part)]) for part in torch.split(queries, rows))
    return torch.cat([_largest(part, k) for part in parts])


def _largest(scores: Tensor, k: int) -> Tensor:
    if k == 1 and scores.device.type == "cpu":
        return torch.from_numpy(scores.numpy().argmax(axis=1, keepdims=True))  # a tenth of the time of torch's
    n = scores.shape[1] // SEGMENT * SEGMENT
    if n < 4 * k * SEGMENT:
        return scores.topk(k, dim=1).indices
    # The k largest are in the k segments with the largest maxima, or among the few behind the last segment.
    segments = scores[:, :n].view(len(scores), -1, SEGMENT).amax(dim=2).topk(k, dim=1).indices
    places = (segments.unsqueeze(2) * SEGMENT + torch.arange(SEGMENT, device=scores.device)).flatten(1)
    rest = torch.arange(n, scores.shape[1], device=scores.device).expand(len(scores), -1)
    places = torch.cat([places, rest], dim=1)
    return places.gather(1, scores.gather(1, places).topk(k, dim=1).indices)


class InnerProductIndex:
    """Ids of the vectors (n, dim) with the largest products with a query, at a promised recall.

    A vector x becomes (x, sqrt(r^2 - |x|^2)) with r the length of the longest one, a query q becomes (q, 0). Then
    |x - q|^2 = r^2 + |q|^2 - 2 x.q: the nearest one has the largest product. `like` is the index over the same vectors
    before they moved: its recipe and setting serve on if they keep the promise for the queries that are `expected`.
    """

    def __init__(
        self,
        vectors: npt.ArrayLike,
        promise: float,
        *,
        like: "InnerProductIndex | None" = None,
        expected: npt.ArrayLike | None = None,
        build_seconds: float = BUILD_SECONDS,
    ) -> None:
        table = check_vectors(vectors)
        squares = np.einsum("ij,ij->i", table, table, dtype=np.float64)
        self._radius = float(np.sqrt(squares.max()))
        room = np.sqrt(np.maximum(self._radius**2 - squares, 0)).astype(np.float32)
        longer = np.concatenate([table, room[:, None]], axis=1)
        self._index = PromisedIndex(longer, promise, build_seconds=build_seconds, likely=self._likely)
        if like is not None:
            asked = np.empty((0, self.dim)) if expected is None else expected
            self._index.follow(like._index, self._lengthen(check_queries(asked, self.dim)))

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
        """Spent on tuning, in all, by those that this one is like as well."""
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
