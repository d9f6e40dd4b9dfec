"""Few seeds, honestly: interquartile means with bootstrap intervals, as Agarwal et al. (2021) recommend."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

Reals = npt.NDArray[np.float64]

DRAWS = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; of one seed there is none, and the interval is without bounds."""

    value: float
    low: float
    high: float
    seeds: int


def iqm(values: npt.ArrayLike, axis: int = 0) -> Reals:
    """The mean of the middle half; of fewer than four values, their mean."""
    return np.asarray(stats.trim_mean(np.asarray(values, np.float64), 0.25, axis=axis))


def estimate(*samples: Sequence[float], of: Callable[..., Reals] = lambda only: only) -> Estimate:
    """`of` the interquartile means of samples over seeds, which are resampled each for itself."""
    arrays = [np.asarray(sample, np.float64) for sample in samples]
    value = float(of(*(iqm(array) for array in arrays)))
    seeds = min(map(len, arrays))
    if seeds < 2:
        return Estimate(value, -np.inf, np.inf, seeds)
    rng = np.random.default_rng(0)
    means = [iqm(array[rng.integers(len(array), size=(DRAWS, len(array)))], axis=1) for array in arrays]
    low, high = np.quantile(of(*means), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(value, float(low), float(high), seeds)


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
    chosen = rng.integers(len(values), size=(1_000, len(values)))
    low, high = np.quantile(iqm(values[chosen], axis=1), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return Curve(grid, iqm(values), low, high)
