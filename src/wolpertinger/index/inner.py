"""Maximum inner product search: by a product with all vectors, or by an index over vectors with one more dimension."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wolpertinger.index.base import Ids, Vectors, check_queries, check_vectors
from wolpertinger.index.likely_queries import likely_queries
from wolpertinger.index.store import Rows
from wolpertinger.index.tune import BUILD_SECONDS
from wolpertinger.index.tuned import TunedIndex

MAX_LIKELY_QUERIES = 64  # to tune on, beside the real ones
PRODUCTS_PER_BLOCK = 2**19  # 2 MB, which stay in the cache
MIN_QUERIES_PER_BLOCK = 32  # however many vectors there are: each block reads all of them
SEGMENT = 64  # products that a first pass reduces to their maximum


@torch.no_grad()
def largest_products(queries: Tensor, vectors: Tensor, k: int) -> Tensor:
    """Return the places (batch, k) of the vectors (n, dim) with the largest products with each query (batch, dim),
    largest first.
    """
    rows = max(MIN_QUERIES_PER_BLOCK, PRODUCTS_PER_BLOCK // len(vectors))
    memory = queries.new_empty(min(rows, len(queries)), len(vectors))
    parts = (torch.mm(part, vectors.t(), out=memory[: len(part)]) for part in torch.split(queries, rows))
    return torch.cat([_largest(part, k) for part in parts])


def _largest(scores: Tensor, k: int) -> Tensor:
    if k == 1 and scores.device.type == "cpu":
        return torch.from_numpy(scores.numpy().argmax(axis=1, keepdims=True))  # faster than torch's
    n = scores.shape[1] // SEGMENT * SEGMENT
    if n < 4 * k * SEGMENT:
        return scores.topk(k, dim=1).indices
    # The k largest are in the k segments with the largest maxima, or behind the last whole segment.
    segments = scores[:, :n].view(len(scores), -1, SEGMENT).amax(dim=2).topk(k, dim=1).indices
    places = (segments.unsqueeze(2) * SEGMENT + torch.arange(SEGMENT, device=scores.device)).flatten(1)
    rest = torch.arange(n, scores.shape[1], device=scores.device).expand(len(scores), -1)
    places = torch.cat([places, rest], dim=1)
    return places.gather(1, scores.gather(1, places).topk(k, dim=1).indices)


class InnerProductIndex:
    """The vectors (n, dim) with the largest inner products with a query, found at a target recall.

    A vector x becomes (x, sqrt(r^2 - |x|^2)) with r the length of the longest one, a query q becomes (q, 0). Then
    |x - q|^2 = r^2 + |q|^2 - 2 x.q: the nearest one has the largest product. `previous`, an index over the same vectors
    before they moved, warm-starts this one if its settings still reach the recall on `expected_queries`.
    """

    def __init__(
        self,
        vectors: npt.ArrayLike,
        recall: float,
        *,
        previous: "InnerProductIndex | None" = None,
        expected_queries: npt.ArrayLike | None = None,
        build_seconds: float = BUILD_SECONDS,
    ) -> None:
        table = check_vectors(vectors)
        squares = np.einsum("ij,ij->i", table, table, dtype=np.float64)
        self._radius = float(np.sqrt(squares.max()))
        room = np.sqrt(np.maximum(self._radius**2 - squares, 0)).astype(np.float32)
        longer = np.concatenate([table, room[:, None]], axis=1)
        self._index = TunedIndex(longer, recall, build_seconds=build_seconds, likely_queries=self._likely_queries)
        if previous is not None:
            queries = np.empty((0, self.dim)) if expected_queries is None else expected_queries
            self._index.warm_start(previous._index, self._lengthen(check_queries(queries, self.dim)))

    @property
    def n(self) -> int:
        """Number of vectors."""
        return self._index.n

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self._index.dim - 1

    @property
    def tuning_seconds(self) -> float:
        """Time spent on tuning in all, the previous indexes included."""
        return self._index.tuning_seconds

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Return the ids (batch, k) with the largest products with each query (batch, dim), largest first."""
        return self._index.search(self._lengthen(check_queries(queries, self.dim)), k)

    def _lengthen(self, queries: Vectors) -> Vectors:
        """Scale queries to the length of the vectors, which changes no order, and append a 0."""
        lengths = np.linalg.norm(queries.astype(np.float64), axis=1, keepdims=True)
        scaled = queries * (self._radius / np.where(lengths > 0, lengths, 1.0))
        return np.pad(scaled.astype(np.float32), ((0, 0), (0, 1)))

    def _likely_queries(self, store: Rows, count: int) -> Vectors:
        """Draw directions of vectors, with noise: only a few, as real queries may look otherwise."""
        return self._lengthen(likely_queries(store, min(count, MAX_LIKELY_QUERIES))[:, :-1])
