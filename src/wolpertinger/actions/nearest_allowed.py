"""The nearest of the allowed actions: by a scan of those, or by a lookup for more than are wanted."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wolpertinger.actions.allowed import Actions, Allowed

if TYPE_CHECKING:
    from wolpertinger.actions.base import ActionSet

SCANNED = 16  # a scan reads so many rows in the time that a lookup takes for one neighbour
SPARE = 1.5  # times as many as are expected to do
MOST_WANTED = 2**20  # of a lookup
AT_ONCE = 2**22  # actions that lookups find together


def scan_pays(allowed: int, k: int, n: int) -> bool:
    """Whether to scan the allowed ones of n actions for k: a lookup would have to find about k n / allowed."""
    return allowed * allowed <= SCANNED * k * n or allowed < 2 * k


def nearest_among(actions: "ActionSet", protos: npt.NDArray[np.floating], k: int, allowed: Allowed) -> Allowed:
    """The k allowed actions closest to each proto-action (batch, dim), nearest first; all, where they are fewer.

    A scan is exact, ties by id; a lookup has the recall of `actions.nearest`, so that share of the allowed ones too.
    """
    counts = allowed.counts
    scanned = [allowed.vectors is not None or scan_pays(int(m), k, actions.n) for m in counts]
    found: list[Actions] = [np.empty(0, np.int64)] * len(allowed)
    vectors = [np.empty((0, actions.dim), np.float32)] * len(allowed)
    for number in np.flatnonzero(scanned).tolist():
        one = allowed.rows(slice(number, number + 1)).listed()
        own = actions.embed(one.actions) if one.vectors is None else one.vectors
        order = nearest_rows(own, protos[number], k)
        found[number], vectors[number] = one.actions[order], own[order]
    looked_up = np.flatnonzero(~np.asarray(scanned))
    if looked_up.size:
        rest, points = allowed.rows(looked_up), protos[looked_up]
        parts = widen(lambda rows, wanted: actions.nearest(points[rows], wanted), rest, k, actions.n)
        for number, row in zip(looked_up.tolist(), parts, strict=True):
            found[number] = row
    return Allowed.of_rows(found, None if allowed.vectors is None else vectors)


def nearest_rows(vectors: npt.NDArray[np.float32], point: npt.NDArray[np.floating], k: int) -> Actions:
    """Places (k,) of the rows (n, dim) nearest to a point (dim,), nearest first, ties by place; of all, if fewer."""
    difference = vectors - np.asarray(point, np.float64)
    distances = np.einsum("nd,nd->n", difference, difference)
    near = np.arange(len(distances))
    if k < len(distances):
        near = np.flatnonzero(distances <= np.partition(distances, k - 1)[k - 1])
    return near[np.argsort(distances[near], kind="stable")][:k]


def widen(find: Callable[[Actions, int], Actions], allowed: Allowed, k: int, n: int) -> list[Actions]:
    """The first k allowed ones of what `find(rows, wanted)` finds, (rows, wanted, ...), by asking for more and more.

    Rows may come out short of k, or empty, where a lookup would have to be too wide.
    """
    counts, found = allowed.counts, [np.empty(0, np.int64)] * len(allowed)
    left, ceiling = np.arange(len(allowed)), min(n, MOST_WANTED)
    share = float(counts.min()) / n if n < 2**63 else 0.0
    wanted = ceiling if share * ceiling < k else _round_up(SPARE * k / share, ceiling)
    while left.size:
        for rows in np.array_split(left, math.ceil(left.size * wanted / AT_ONCE)):
            proposed = find(rows, wanted)
            legal = allowed.rows(rows).holds(proposed)
            for number, own, inside in zip(rows.tolist(), proposed, legal, strict=True):
                found[number] = own[np.flatnonzero(inside)[:k]]
        if wanted == ceiling:
            break
        left = left[[len(found[number]) < min(k, counts[number]) for number in left.tolist()]]
        wanted = _round_up(4 * wanted, ceiling)
    return found


def _round_up(wanted: float, most: int) -> int:
    """To a power of 2: an index is tuned anew for every other k."""
    return min(most, 2 ** math.ceil(math.log2(wanted)))
