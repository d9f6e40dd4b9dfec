"""Off-policy estimators over whole episodes, with bootstrap intervals and effective sample sizes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 200
LEAST_EFFECTIVE, LEAST_SHARE = 50, 0.01  # episodes, and their share, below which weights say too little

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Episodes:
    """Where episodes begin among rows that lie together, and how long each is."""

    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True)
class Estimate:
    """What a policy is worth by one estimator."""

    name: str
    value: float
    low: float
    high: float
    """The 95 % interval by resampling episodes."""
    effective: float | None = None
    """Episodes that would say as much if they had equal weights; None where nothing is weighted."""
    episodes: int = 0

    @property
    def is_trusted(self) -> bool:
        """Whether enough episodes count."""
        if self.effective is None:
            return True
        return self.effective >= max(LEAST_EFFECTIVE, LEAST_SHARE * self.episodes)


def mean_return(name: str, episodes: Episodes, rewards: Numbers, gamma: float, seed: int = 0) -> Estimate:
    """The mean discounted return of what was logged."""
    ones = np.ones(len(rewards))
    found = weighted(name, episodes, ones, rewards, gamma, seed=seed)
    return Estimate(name, found.value, found.low, found.high, None, len(episodes))


def direct(name: str, values: Numbers, seed: int = 0) -> Estimate:
    """The mean of a model's values of the states that episodes begin in; the interval knows nothing of its errors."""
    counts = _resample(len(values), seed)
    low, high = np.quantile(counts @ values / len(values), (0.025, 0.975))
    return Estimate(name, float(values.mean()), float(low), float(high), None, len(values))


def weighted(
    name: str,
    episodes: Episodes,
    ratios: Numbers,
    rewards: Numbers,
    gamma: float,
    *,
    model: tuple[Numbers, Numbers] | None = None,
    normalise: bool = False,
    seed: int = 0,
) -> Estimate:
    """Per-decision importance sampling (Precup et al., 2000) by the ratios of the policies' chances, of each row.

    :param model: Q(s, a) of the logged actions and V(s), of each row: doubly robust (Jiang and Li, 2016).
    :param normalise: divide by the mean weight of each step instead of 1.
    """
    m = len(episodes)
    weights, counts = np.ones(m), np.concatenate([np.ones((1, m)), _resample(m, seed)])  # the first is what was seen
    values = np.zeros(len(counts))
    for step in range(int(episodes.lengths.max())):
        alive = np.flatnonzero(episodes.lengths > step)
        rows = episodes.starts[alive] + step
        before, gains = weights.copy(), rewards[rows]
        weights[alive] = before[alive] * ratios[rows]
        some = counts[:, alive]
        if model is not None:
            gains = gains - model[0][rows]
            values += gamma**step * (some @ (before[alive] * model[1][rows])) / _total(counts, before, normalise)
        values += gamma**step * (some @ (weights[alive] * gains)) / _total(counts, weights, normalise)
    square = float(weights @ weights)
    effective = float(weights.sum() ** 2 / square) if square else 0.0
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return Estimate(name, float(values[0]), float(low), float(high), effective, m)


def _total(counts: Numbers, weights: Numbers, normalise: bool) -> Numbers:
    """What sums over episodes are divided by."""
    if not normalise:
        return np.full(len(counts), float(len(weights)))
    total = counts @ weights
    return np.where(total > 0, total, np.inf)  # no weight at all: nothing is known, which counts as 0


def _resample(m: int, seed: int) -> Numbers:
    """How often each of m episodes comes in each resample."""
    rng = np.random.default_rng(seed)
    return np.stack([np.bincount(rng.integers(m, size=m), minlength=m) for _ in range(RESAMPLES)]).astype(np.float64)
