"""Few seeds, honestly: Student's t for verdicts; for curves interquartile means with bootstrap intervals, as Agarwal et
al. (2021) recommend.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

Reals = npt.NDArray[np.float64]

DRAWS = 1_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; of one seed there is none: it has no bounds then."""

    value: float
    low: float
    high: float
    seeds: int


def iqm(values: npt.ArrayLike, axis: int = 0) -> Reals:
    """The mean of the middle half; of fewer than four values, their mean."""
    return np.asarray(stats.trim_mean(np.asarray(values, np.float64), 0.25, axis=axis))


def estimate(*samples: Sequence[float], of: Callable[..., Any] = lambda only: only) -> Estimate:
    """`of` the means of samples over seeds, with an interval by Student's t and linear propagation (Welch).

    A bootstrap of three seeds can say no more than [least, most], which covers the truth in 74 % of cases, not 95 %.
    """
    arrays = [np.asarray(sample, np.float64) for sample in samples]
    means = np.array([array.mean() for array in arrays])
    value, seeds = float(of(*means)), min(map(len, arrays))
    if seeds < 2 or not np.isfinite(value):
        return Estimate(value, -np.inf, np.inf, seeds)
    slopes = np.array([_slope(of, means, place) for place in range(len(means))])
    parts = slopes**2 * np.array([array.var(ddof=1) / len(array) for array in arrays])
    if not parts.sum() > 0:
        return Estimate(value, value, value, seeds)
    freedom = parts.sum() ** 2 / sum(part**2 / (len(array) - 1) for part, array in zip(parts, arrays, strict=True))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * np.sqrt(parts.sum()))
    return Estimate(value, value - half, value + half, seeds)


def _slope(of: Callable[..., Any], at: Reals, place: int) -> float:
    """How fast `of` changes with one of its arguments."""
    step = np.zeros_like(at)
    step[place] = 1e-6 * max(1.0, abs(at[place]))
    return float(of(*(at + step)) - of(*(at - step))) / (2 * step[place])


@dataclass(frozen=True)
class Curve:
    """Interquartile means of several seeds' learning curves, with pointwise intervals."""

    x: Reals
    y: Reals
    low: Reals
    high: Reals


def join_curves(curves: Sequence[tuple[Sequence[float], Sequence[float]]], points: int = 60) -> Curve:
    """One curve of several, each given by its x and y: read by straight lines between its points, as far as all go."""
    start, end = max(min(x) for x, _ in curves), min(max(x) for x, _ in curves)
    grid = np.linspace(start, max(start, end), points)
    values = np.stack([np.interp(grid, x, y) for x, y in curves])  # (seeds, points)
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(values), size=(DRAWS, len(values)))
    low, high = np.quantile(iqm(values[chosen], axis=1), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return Curve(grid, iqm(values), low, high)
