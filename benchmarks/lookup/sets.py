"""Tables of vectors, and queries that go with them, to measure nearest-neighbour lookup on."""

from collections.abc import Callable
from functools import partial

import numpy as np

from wolpertinger.cli.vectors import NOISY, LookupSet, near_rows
from wolpertinger.index import check_vectors
from wolpertinger.index.base import Vectors

ITEMS = 13_138  # the paper's largest catalogue
MILLION = 1_000_000
DIM = 20
CENTRES, SPREAD = 1_000, 0.3
MOVES = 20  # of a plan
TABLE_SEED = 2**31  # queries have smaller seeds


def recommender(dim: int, rows: int | None = None) -> LookupSet:
    """The items of the Complete Journey, asked for as an exploring actor does."""
    from wolpertinger.envs.completejourney import load_complete_journey  # pandas only where it is needed

    vectors = check_vectors(load_complete_journey(rows or ITEMS, dim).vectors)
    description = f"{len(vectors):,} products of the Complete Journey, {NOISY}"
    return LookupSet(f"recommender-{dim}", description, vectors, near_rows(vectors))


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
