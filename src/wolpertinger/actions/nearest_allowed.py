"""The nearest of the allowed actions: by a scan of those, or by a lookup for more than are wanted."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wolpertinger.actions.allowed import Actions, Allowed

if TYPE_CHECKING:
    from wolpertinger.actions.base import ActionSet

SCANNED = 16  # a scan reads so many rows in the time that a lookup takes for one neighbour
SPARE = 1.5  # times as many as are expected to do
MOST_WANTED = 2**20  # of a lookup
MARGIN = 1e-6  # of errors in float32, per dimension, where 1 is the largest square
AT_ONCE = 2**22  # actions that lookups find together


def scan_pays(allowed: int, k: int, n: int) -> bool:
    """Whether to scan the allowed ones of n actions for k: a lookup would have to find about k n / allowed."""
    return allowed * allowed <= SCANNED * k * n or allowed < 2 * k


def nearest_among(actions: "ActionSet", protos: npt.NDArray[np.floating], k: int, allowed: Allowed) -> Allowed:
    """The k allowed actions closest to each proto-action (batch, dim), nearest first; all, where they are fewer.

    A scan is exact, ties by id; a lookup has the recall of `actions.nearest`, so that share of the allowed ones too.
    """
    scanned = np.array([allowed.own_vectors is not None or scan_pays(int(m), k, actions.n) for m in allowed.counts])
    found: list[Allowed] = [allowed.rows(slice(0, 0))] * len(allowed)
    for number in np.flatnonzero(scanned).tolist():
        own = allowed.rows(slice(number, number + 1)).listed()
        vectors = actions.embed(own.states[0]) if own.own_vectors is None else own.own_vectors[0]
        found[number] = own.pick(nearest_rows(vectors, protos[number], k))
    if (rest := np.flatnonzero(~scanned)).size:
        points = protos[rest]
        find = lambda rows, wanted: actions.nearest_at_most(points[rows], wanted)  # noqa: E731
        parts = widen(find, allowed.rows(rest), k, actions.n)
        for number, row in zip(rest.tolist(), parts, strict=True):
            found[number] = Allowed([row])
    return join(found)


def join(single: Sequence[Allowed]) -> Allowed:
    """Batches of one state as one batch."""
    own = [part.own_vectors[0] for part in single if part.own_vectors is not None]
    return Allowed([part.states[0] for part in single], own or None)


def nearest_rows(vectors: npt.NDArray[np.float32], point: npt.NDArray[np.floating], k: int) -> Actions:
    """Places (k,) of the rows (n, dim) nearest to a point (dim,), nearest first, ties by place; of all, if fewer."""
    near = np.arange(len(vectors))
    if k < len(vectors):  # by |x|^2 - 2 x.q in float32, and whatever its errors leave open
        squares = np.einsum("nd,nd->n", vectors, vectors)
        order = squares - 2 * (vectors @ point.astype(np.float32))
        margin = MARGIN * len(point) * (float(squares.max()) + float(point @ point))
        near = np.flatnonzero(~(order > np.partition(order, k - 1)[k - 1] + margin))
    exact = vectors[near] - point.astype(np.float64)
    return near[np.argsort(np.einsum("nd,nd->n", exact, exact), kind="stable")][:k]


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
