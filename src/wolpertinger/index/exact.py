"""Exact nearest neighbours by a scan: a float32 matrix product proposes, float64 distances decide."""

import warnings

import numpy as np
import numpy.typing as npt
import torch

from wolpertinger.index.base import Ids, Vectors, check_k, check_queries, check_vectors, chunks, squared_distances

Distances = npt.NDArray[np.float64]

BLOCK_BYTES = 1 << 25  # of approximate distances at a time
LARGEST_SQUARE = 1e37  # squared distances beyond this may overflow float32


class ExactIndex:
    """Exact k nearest rows of a table, ties by id. The table is used as it is, not copied; do not change it."""

    def __init__(self, vectors: npt.ArrayLike) -> None:
        self._vectors = check_vectors(vectors)
        self._table = _as_tensor(self._vectors)
        self._centre = _centre(self._vectors)
        norms = _squared_norms(self._vectors, self._centre)
        self._radius = float(np.sqrt(norms.max()))
        with np.errstate(over="ignore"):  # such tables are scanned in float64, see search
            self._norms = torch.from_numpy(norms.astype(np.float32))

    @property
    def n(self) -> int:
        """Rows of the table."""
        return len(self._vectors)

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self._vectors.shape[1]

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Ids (batch, k) of the rows nearest to each query (batch, dim), by L2 distance, ties by id."""
        k = check_k(k, self.n)
        points = check_queries(queries, self.dim).astype(np.float32).astype(np.float64)
        found = np.empty((len(points), k), np.int64)
        step = max(1, BLOCK_BYTES // (4 * self.n))
        for start in range(0, len(points), step):
            found[start : start + step] = self._search(points[start : start + step], k)
        return found

    def _search(self, queries: Distances, k: int) -> Ids:
        rows, ids = self._shortlist(queries, k)
        distances = squared_distances(self._vectors, queries, rows, ids)
        counts = np.bincount(rows, minlength=len(queries))
        column = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
        # One line per query, ids ascending, padded at the end: a stable sort then breaks ties by id.
        padded_ids = np.zeros((len(queries), counts.max()), np.int64)
        padded_distances = np.full(padded_ids.shape, np.inf)
        padded_ids[rows, column] = ids
        padded_distances[rows, column] = distances
        order = np.argsort(padded_distances, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(padded_ids, order, axis=1)

    def _shortlist(self, queries: Distances, k: int) -> tuple[Ids, Ids]:
        """Pairs (query, id), sorted, among which the k nearest of every query are for certain.

        With approximations off by at most e, the k-th smallest of them, t, says that the k-th true distance is at
        most t + e. So a row that belongs has an approximation of at most t + 2e.
        """
        centred = (queries - self._centre).astype(np.float32)
        step = max(1, BLOCK_BYTES // (4 * len(queries)))
        blocks = [slice(start, min(self.n, start + step)) for start in range(0, self.n, step)]
        smallest = approximate = self._approximate(centred, blocks[0])
        for block in blocks[1:]:
            smallest = np.concatenate([_smallest(smallest, k), self._approximate(centred, block)], axis=1)
        threshold = _round_up(_smallest(smallest, k).max(axis=1) + 2 * self._error_bound(centred))

        pairs = []
        for block in blocks:
            if len(blocks) > 1:  # too many to keep: computed again
                approximate = self._approximate(centred, block)
            # Not "<=": NaN, from overflow, must stay in the list.
            kept = np.flatnonzero(~(approximate > threshold[:, None]))
            row, column = np.divmod(kept, approximate.shape[1])
            pairs.append((row, column + block.start))
        rows, ids = (np.concatenate(part) for part in zip(*pairs, strict=True))
        order = np.argsort(rows, kind="stable") if len(blocks) > 1 else slice(None)
        return rows[order], ids[order]

    def _approximate(self, centred: Vectors, block: slice) -> Vectors:
        """|x|^2 - 2 x.q, which orders as |x - q|^2 does, for a block of rows x: (batch, rows)."""
        table = self._table[block]
        if self._centre.any():
            table = table - torch.from_numpy(self._centre.astype(np.float32))
        return torch.addmm(self._norms[block], torch.from_numpy(centred), table.T, alpha=-2).numpy()

    def _error_bound(self, centred: Vectors) -> Distances:
        """How far an approximation may be from the distance that decides, per query; infinite where it may overflow.

        A product of dim terms in any order is off by at most dim * unit * |x||q|; centring, the norm and the last sum
        add a few units each, and the float64 distance errs too. Every constant is rounded up.
        """
        # Below "highest", torch may multiply in bfloat16.
        unit = 2.0**-24 if torch.get_float32_matmul_precision() == "highest" else 2.0**-7
        length = np.linalg.norm(centred.astype(np.float64), axis=1)
        reach = self._radius + length
        error = unit * ((2 * self.dim + 16) * self._radius * length + 10 * self._radius**2)
        error += self.dim * (2.0**-49 * reach**2 + 2.0**-120 * (1 + reach))  # float64, and underflow in float32
        return np.where(reach**2 < LARGEST_SQUARE, error, np.inf)


def _smallest(values: Vectors, k: int) -> Vectors:
    # 3 ms for 656 of 64 x 13,138, where torch.topk takes 10 and torch.kthvalue 17.
    return np.partition(values, k - 1, axis=1)[:, :k] if k < values.shape[1] else values


def _round_up(values: Distances) -> Vectors:
    with np.errstate(over="ignore"):
        return np.nextafter(values.astype(np.float32), np.float32(np.inf))


def _as_tensor(vectors: Vectors) -> torch.Tensor:
    with warnings.catch_warnings():
        # A memory map opened for reading: nothing here writes to it.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return torch.from_numpy(vectors)


def _centre(vectors: Vectors) -> Distances:
    """A point to measure from: the mean if the table is far from the origin, where float32 would lose the digits."""
    total = np.zeros(vectors.shape[1])
    for rows in chunks(len(vectors), vectors.shape[1] * 8):
        total += vectors[rows].sum(axis=0, dtype=np.float64)
    mean = (total / len(vectors)).astype(np.float32).astype(np.float64)
    origin = np.zeros_like(mean)
    # Subtracting it from every block costs time, so only where it gains at least two bits.
    gains = _squared_norms(vectors, origin).max() > 16 * _squared_norms(vectors, mean).max()
    return mean if gains else origin


def _squared_norms(vectors: Vectors, centre: Distances) -> Distances:
    norms = np.empty(len(vectors))
    for rows in chunks(len(vectors), vectors.shape[1] * 8):
        difference = vectors[rows] - centre
        norms[rows] = np.einsum("nd,nd->n", difference, difference)
    return norms
