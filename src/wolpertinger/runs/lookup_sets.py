"""Tables of vectors, and queries that go with them, to measure nearest-neighbour lookup on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wolpertinger.index import Store, check_queries, check_vectors
from wolpertinger.index.base import Vectors
from wolpertinger.index.promise import NOISE, likely_queries

Draw = Callable[[int, int], npt.NDArray]  # how many queries, by which seed

ITEMS = 13_138  # the paper's largest catalogue
MILLION = 1_000_000
DIM = 20
CENTRES, SPREAD = 1_000, 0.3
MOVES = 20  # of a plan
TABLE_SEED = 2**31  # queries have smaller seeds


@dataclass(frozen=True, eq=False)
class LookupSet:
    """A table of vectors (n, dim), float32 in C order, and where its queries come from."""

    name: str
    description: str
    vectors: Vectors
    draw: Draw

    def queries(self, count: int, seed: int) -> Vectors:
        """Queries (count, dim), fewer only if they come from a file that has no more; another seed gives other ones."""
        return np.ascontiguousarray(self.draw(count, seed), dtype=np.float32)


def recommender(dim: int, rows: int | None = None) -> LookupSet:
    """The items of the Complete Journey, asked for as an exploring actor does."""
    from wolpertinger.envs.completejourney import load_complete_journey  # pandas only where it is needed

    vectors = check_vectors(load_complete_journey(rows or ITEMS, dim).vectors)
    description = f"{len(vectors):,} products of the Complete Journey, {_NOISY}"
    return LookupSet(f"recommender-{dim}", description, vectors, _near_rows(vectors))


def clustered(rows: int | None = None) -> LookupSet:
    """Rows around a thousand centres, and queries around the same ones."""
    centres = np.random.default_rng(TABLE_SEED).standard_normal((CENTRES, DIM), np.float32)

    def draw(count: int, seed: int) -> Vectors:
        rng = np.random.default_rng(seed)
        offset = np.float32(SPREAD) * rng.standard_normal((count, DIM), np.float32)
        return centres[rng.integers(CENTRES, size=count)] + offset

    description = f"rows and queries are one of {CENTRES:,} centres from N(0, I) plus {SPREAD} N(0, I)"
    return LookupSet("clustered", description, draw(rows or MILLION, TABLE_SEED), draw)


def isotropic(rows: int | None = None) -> LookupSet:
    """Rows and queries from one Gaussian: no structure that an index could use."""

    def draw(count: int, seed: int) -> Vectors:
        return np.random.default_rng(seed).standard_normal((count, DIM), np.float32)

    vectors = draw(rows or MILLION, TABLE_SEED)
    return LookupSet("isotropic", "rows and queries from N(0, I)", vectors, draw)


def plans(rows: int | None = None) -> LookupSet:
    """All plans of binary moves, each move one-hot; `rows` keeps the longest plans of which there are no more."""
    if rows is not None and rows < 2:
        raise ValueError(f"rows={rows} is too few: there are 2 plans of one move")
    moves = MOVES if rows is None else rows.bit_length() - 1
    digits = np.arange(2**moves)[:, None] >> np.arange(moves) & 1  # (2**moves, moves)
    vectors = np.stack([1 - digits, digits], axis=2).reshape(len(digits), 2 * moves).astype(np.float32)

    def draw(count: int, seed: int) -> Vectors:
        return np.random.default_rng(seed).random((count, 2 * moves), np.float32)

    description = f"all plans of {moves} binary moves, one-hot; queries uniform in [0, 1]^{2 * moves}"
    return LookupSet("plans", description, vectors, draw)


SETS: dict[str, Callable[..., LookupSet]] = {
    "recommender-20": partial(recommender, 20),
    "recommender-200": partial(recommender, 200),
    "clustered": clustered,
    "isotropic": isotropic,
    "plans": plans,
}


def from_file(vectors_path: Path, queries_path: Path | None = None, *, rows: int | None = None) -> LookupSet:
    """The vectors of a .npy file, memory-mapped; without a file of queries, those are rows plus noise.

    Queries from a file are dealt out: an even seed gets its even rows, an odd one its odd rows, at most `count`.
    """
    vectors = check_vectors(_read(vectors_path)[:rows])
    if queries_path is None:
        return LookupSet(vectors_path.stem, _NOISY, vectors, _near_rows(vectors))
    stored = _read(queries_path)
    if len(stored) < 2:
        raise ValueError(
            f"{queries_path} has {len(stored)} queries: give at least 2, to tune on one and measure another"
        )
    try:
        check_queries(stored, vectors.shape[1])
    except (ValueError, TypeError) as error:
        raise ValueError(f"{queries_path}: {error}") from error

    def deal(count: int, seed: int) -> npt.NDArray:
        return stored[seed % 2 :: 2][:count]

    return LookupSet(vectors_path.stem, f"queries from {queries_path.name}", vectors, deal)


def _read(path: Path) -> npt.NDArray:
    """An array of a .npy file, memory-mapped, or an error that says what the file is instead."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no .npy file of numbers: save a 2-D array with numpy.save") from error
    if not isinstance(array, np.ndarray):  # np.load opens .npz archives too
        raise ValueError(f"{path} is an archive of arrays: save one 2-D array with numpy.save")
    if array.ndim != 2:
        raise ValueError(f"{path} holds an array of shape {array.shape}: give (rows, dim)")
    return array


_NOISY = (
    f"queries are rows plus Gaussian noise of {NOISE} standard deviations per dimension, clipped to the table's box"
)


def _near_rows(vectors: Vectors) -> Draw:
    store = Store(vectors)
    return lambda count, seed: likely_queries(store, count, seed)
