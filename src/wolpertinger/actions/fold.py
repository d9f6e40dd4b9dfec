"""The k best combinations of one level per factor, without enumerating them."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wolpertinger.actions.allowed_levels import AllowedLevels
from wolpertinger.actions.factor import Digits, Factor, Reals, smallest

WORD_LIMIT = 2**63
STEPS = 2.0**52  # whole numbers below this add up exactly in float64


class Fold:
    """The k combinations with the smallest sums of distances, sorted, ties by digits, for a batch of queries.

    Takes, per factor, the digits and squared distances (batch, min(i, k)) of its nearest levels, nearest first.
    One factor is folded in at a time and the k best partial sums are kept: O(k log k) pairs a factor. `counts`
    (batch, d) says how many of the levels there are to take, at least k combinations in all: the others are infinitely
    far.
    """

    def __init__(
        self,
        digits: Sequence[Digits],
        distances: Sequence[Reals],
        sizes: Sequence[int],
        k: int,
        counts: Digits | None = None,
    ) -> None:
        # Partial combinations are held as words, mixed-radix numbers below 2**63, which sort as their digits do.
        self._words: list[Digits] = []
        self._radices: list[list[int]] = []
        self._sums = Steps(np.zeros((len(digits[0]), 1)), np.zeros((len(digits[0]), 1)))
        self._pairs: dict[tuple[int, int], tuple[Digits, Digits]] = {}
        for size, digit, distance in zip(sizes, *_to_steps(digits, distances, k, counts), strict=True):
            self._open_word(size)
            self._fold_in(size, digit, distance, k)

    def ids(self) -> Digits:
        """Ids (batch, k), for sets of less than 2**63."""
        return self._words[0]

    def digits(self) -> Digits:
        """Digits (batch, k, d)."""
        columns = []
        for word, radices in zip(reversed(self._words), reversed(self._radices), strict=True):
            for radix in reversed(radices):
                word, digit = np.divmod(word, radix)
                columns.append(digit)
        return np.stack(columns[::-1], axis=-1)

    def _open_word(self, size: int) -> None:
        """Make room for one more digit."""
        if not self._radices or prod(self._radices[-1]) * size >= WORD_LIMIT:
            self._radices.append([])
            self._words.append(np.zeros(self._sums.high.shape, np.int64))
        self._radices[-1].append(size)

    def _fold_in(self, size: int, digit: Digits, distance: "Steps", k: int) -> None:
        shape = (self._sums.high.shape[1], digit.shape[1])
        if shape not in self._pairs:
            self._pairs[shape] = _pairs(k, *shape)
        prefix, level = self._pairs[shape]
        sums = self._sums.columns(prefix).plus(distance.columns(level))

        def keys(rows: npt.NDArray[np.bool_]) -> list[npt.NDArray[Any]]:
            *finished, last = (word[rows][:, prefix] for word in self._words)
            return [sums.low[rows], *finished, last * size + digit[rows][:, level]]

        order = smallest(sums.high, k, ties=keys)
        prefix, level = prefix[order], level[order]
        self._sums = sums.reordered(order)
        self._words = [np.take_along_axis(word, prefix, axis=1) for word in self._words]
        self._words[-1] = self._words[-1] * size + np.take_along_axis(digit, level, axis=1)


class Steps(NamedTuple):
    """Non-negative distances as whole numbers of steps, high * 2**52 + low: their sums are exact in any order."""

    high: Reals
    low: Reals

    def columns(self, chosen: Digits) -> "Steps":
        return Steps(self.high[:, chosen], self.low[:, chosen])

    def reordered(self, order: Digits) -> "Steps":
        return Steps(np.take_along_axis(self.high, order, axis=1), np.take_along_axis(self.low, order, axis=1))

    def plus(self, other: "Steps") -> "Steps":
        low = self.low + other.low
        carry = low >= STEPS
        return Steps(self.high + other.high + carry, low - STEPS * carry)


def _pairs(k: int, n_prefixes: int, n_levels: int) -> tuple[Digits, Digits]:
    """Ranks (prefix, level) that can be among the k best: a pair comes after all those with no larger ranks.

    Level by level, so that the sums are sorted runs.
    """
    counts = np.minimum(n_prefixes, k // np.arange(1, n_levels + 1))
    level = np.repeat(np.arange(n_levels), counts)
    prefix = np.arange(len(level)) - np.repeat(np.cumsum(counts) - counts, counts)
    return prefix, level


def _to_steps(
    digits: Sequence[Digits], distances: Sequence[Reals], k: int, counts: Digits | None
) -> tuple[list[Digits], list[Steps]]:
    """Digits and distances in excess of each factor's nearest level, in steps of one size, sorted.

    With exact sums equal combinations tie, and what is pruned is never one of the k best.
    """
    excess = [distance - distance[:, :1] for distance in distances]
    worst = _worst_of_k_best(excess, k, counts)
    # What is worse than that is left out. The rest adds up to less than 2**52 high steps.
    shift = 52 - np.frexp(worst * len(excess))[1]
    sorted_digits, sorted_steps = [], []
    for digit, value in zip(digits, excess, strict=True):
        useful = value <= worst[:, None]
        scaled = np.ldexp(np.where(useful, value, 0.0), shift[:, None])
        high = np.floor(scaled)
        low = np.minimum(np.rint((scaled - high) * STEPS), STEPS - 1)
        high[~useful] = np.inf
        # Rounding can only have made neighbours equal: those now go by digit.
        order = smallest(high, high.shape[1], ties=partial(_take_rows, [low, digit]))
        sorted_digits.append(np.take_along_axis(digit, order, axis=1))
        sorted_steps.append(Steps(high, low).reordered(order))
    return sorted_digits, sorted_steps


def _take_rows(arrays: list[npt.NDArray[Any]], rows: npt.NDArray[np.bool_]) -> list[npt.NDArray[Any]]:
    return [array[rows] for array in arrays]


def _worst_of_k_best(excess: Sequence[Reals], k: int, counts: Digits | None) -> Reals:
    """A bound (batch,) on the excess of the k-th best combination: the factors that vary least may make k alone."""
    if counts is None:
        spread = np.stack([value[:, -1] for value in excess], axis=1)  # (batch, d)
        order = np.argsort(spread, axis=1)
        made = np.log2([value.shape[1] for value in excess])[order].cumsum(axis=1)
    else:
        last = [np.take_along_axis(value, counts[:, [number]] - 1, axis=1) for number, value in enumerate(excess)]
        spread = np.concatenate(last, axis=1)
        order = np.argsort(spread, axis=1)
        made = np.take_along_axis(np.log2(counts), order, axis=1).cumsum(axis=1)
    enough = np.minimum((made < np.log2(k) - 1e-9).sum(axis=1), spread.shape[1] - 1)
    total = np.take_along_axis(spread, order, axis=1).cumsum(axis=1)
    return np.take_along_axis(total, enough[:, None], axis=1)[:, 0]


def cheapest_combinations(costs: Sequence[Reals], k: int, *, has_ids: bool) -> Digits:
    """The k combinations with the smallest sums of their levels' costs, (batch, i) of each factor, cheapest first."""
    orders = [np.argsort(cost, axis=1, kind="stable")[:, :k] for cost in costs]
    ranked = [np.take_along_axis(cost, order, axis=1) for cost, order in zip(costs, orders, strict=True)]
    fold = Fold(orders, ranked, [cost.shape[1] for cost in costs], k)
    return fold.ids() if has_ids else fold.digits()


Cost = Callable[[Digits, int, Digits], Reals]
"""In states `rows` (n,), of a factor by its number, what levels (n, m) of it cost (n, m)."""


def nearest_combinations(factors: Sequence[Factor], queries: Reals, k: int, allowed: AllowedLevels) -> list[Digits]:
    """The k nearest combinations of allowed levels to each query (batch, dim), nearest first; all, if fewer."""
    ends = np.cumsum([factor.width for factor in factors]).tolist()

    def distance(rows: Digits, number: int, levels: Digits) -> Reals:
        own = slice(ends[number] - factors[number].width, ends[number])
        difference = factors[number].levels[levels] - queries[rows, None, own]
        return (difference**2).cumsum(axis=-1)[..., -1]

    return cheapest_allowed(distance, k, allowed)


def cheapest_allowed(cost: Cost, k: int, allowed: AllowedLevels) -> list[Digits]:
    """The k combinations of allowed levels with the smallest sums of costs, cheapest first; all, if fewer."""
    found: list[Digits] = [np.empty(0, np.int64)] * len(allowed)
    enough = allowed.counts >= k
    for number in np.flatnonzero(~enough):
        few = allowed.rows(slice(number, number + 1))
        found[number] = _fold_allowed(cost, np.array([number]), int(few.counts[0]), few)[0]
    if (rest := np.flatnonzero(enough)).size:
        for number, own in zip(rest, _fold_allowed(cost, rest, k, allowed.rows(rest)), strict=True):
            found[number] = own
    return found


def _fold_allowed(cost: Cost, rows: Digits, k: int, allowed: AllowedLevels) -> Digits:
    """Ids (batch, k) or digits (batch, k, d), where each state allows at least k combinations."""
    digits, costs, counts = [], [], []
    for number in range(len(allowed.sizes)):
        levels, count = allowed.padded(number)
        own = cost(rows, number, levels)
        own[np.arange(levels.shape[1]) >= count[:, None]] = np.inf
        order = np.argsort(own, axis=1, kind="stable")[:, :k]
        digits.append(np.take_along_axis(levels, order, axis=1))
        costs.append(np.take_along_axis(own, order, axis=1))
        counts.append(np.minimum(count, k))
    fold = Fold(digits, costs, allowed.sizes.tolist(), k, np.stack(counts, axis=1))
    return fold.ids() if allowed.has_ids else fold.digits()
