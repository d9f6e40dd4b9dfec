"""Lemma 1 of the paper: what the best of the k nearest actions is worth, in theory and by a trained critic.

In the lemma, each of the k nearest actions is bad, worth q - c, with probability p; else its value is uniform in
[q - b, q + b]. Here p, b, c and the centre q are fitted to the values that a critic gives to real candidates, and what
the lemma then predicts of the best of them stands beside what the critic says itself.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3.common.vec_env import VecEnv

from wolpertinger.actions import ActionSet, ActionTable
from wolpertinger.agent import Wolpertinger
from wolpertinger.policy import Policy, States
from wolpertinger.policy.scoring import score_exactly
from wolpertinger.policy.sources import NearestSource

MOST = 2_048  # candidates of a state that are looked at
STATES = 256  # that the policy visits

Reals = npt.NDArray[np.float64]


def expected_best(k: npt.ArrayLike, q: float, p: float, b: float, c: float) -> Any:
    """Lemma 1: the expected value of the best of k actions, for one k or an array of them."""
    _check(p, b, c)
    k = np.asarray(k, np.float64)
    if np.any(k < 1):
        raise ValueError(f"k={k.min():g}: give at least 1")
    if p == 1:  # every action is bad
        return q - c + 0 * k[()]
    log_p = np.log(p) if p > 0 else -np.inf
    some_good = -np.expm1((k + 1) * log_p)  # 1 - p**(k + 1), with all its digits where p is close to 1
    return (q + b - np.exp(k * log_p) * (c - b) - 2 * b / (k + 1) * some_good / (1 - p))[()]


def simulate(
    k: int, q: float, p: float, b: float, c: float, *, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """The lemma by chance: the mean of the best of k drawn actions over `draws` draws, and its standard error."""
    _check(p, b, c)
    if draws < 2:
        raise ValueError(f"draws={draws}: give at least 2, or there is no standard error")
    bad = rng.random((draws, k)) < p
    best = np.where(bad, q - c, rng.uniform(q - b, q + b, (draws, k))).max(axis=1)
    return float(best.mean()), float(best.std(ddof=1) / np.sqrt(draws))


def _check(p: float, b: float, c: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"p={p}: give a probability, from 0 to 1")
    if not 0 <= b <= c:
        raise ValueError(f"b={b}, c={c}: the lemma is for 0 <= b <= c, where bad actions are no better than any other")


@dataclass(frozen=True)
class Fit:
    """The lemma's distribution, fitted to values."""

    p: float
    b: float
    c: float
    centre: float
    misfit: float
    """Root mean square difference between the quantiles of the fit and those of the values."""

    def expected_best(self, k: npt.ArrayLike) -> Any:
        return expected_best(k, self.centre, self.p, self.b, self.c)

    def scaled(self, location: float, spread: float) -> "Fit":
        """The same distribution stretched by `spread`, then moved by `location`."""
        centre = location + spread * self.centre
        return Fit(p=self.p, b=spread * self.b, c=spread * self.c, centre=centre, misfit=spread * self.misfit)


def fit(values: npt.ArrayLike) -> Fit:
    """The lemma's p, b, c and centre for a sample of values, by least squares between quantiles.

    The lemma's quantiles are a constant up to p and a straight line from there on; for each number of bad values the
    best constant and line are known, and the number that leaves the least squares gives p.
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=None)
    if ordered.size < 2 or not np.isfinite(ordered).all():
        raise ValueError(f"{ordered.size} values, of {ordered[:3]} ...: give at least 2, all of them finite")
    middle = ordered.mean()
    squares, low, bottom, slope = _constants_and_lines(ordered - middle)
    bad = int(squares.argmin())
    return Fit(
        p=bad / ordered.size,
        b=float(slope[bad] / 2),
        c=float(bottom[bad] + slope[bad] / 2 - low[bad]),
        centre=float(middle + bottom[bad] + slope[bad] / 2),
        misfit=float(np.sqrt(max(0.0, squares[bad]) / ordered.size)),
    )


def _constants_and_lines(values: Reals) -> tuple[Reals, Reals, Reals, Reals]:
    """For 0, 1, ... n - 2 bad ones of n ordered values: the squares that are left, the bad ones' value, and where the
    line of the others begins and how far it rises.
    """
    n = values.size
    bad = np.arange(n - 1)
    good = n - bad
    total, total_squares = values.sum(), values @ values
    sums = np.concatenate(([0.0], np.cumsum(values)[: n - 2]))  # of the bad ones
    numbered = (np.arange(n) + 0.5) * values
    later = numbered.sum() - np.concatenate(([0.0], np.cumsum(numbered)[: n - 2]))  # of the others
    mean = (total - sums) / good
    products = (later - bad * (total - sums)) / good  # sum of t * value, where t in (0, 1) places a value on the line
    variance = (1 - 1 / good.astype(np.float64) ** 2) / 12  # of t, whose mean is 1/2

    slope = (products / good - mean / 2) / variance
    bottom = mean - slope / 2
    low = np.where(bad > 0, sums / np.maximum(bad, 1), bottom)
    squares = total_squares - bad * low**2 - good * (mean**2 + slope**2 * variance)

    # The bad may be no better than the rest: where they came out so, the line begins at their constant (c = b).
    share = good / n
    slope_tied = (products / n - share / 2 * total / n) / (share * (variance + 1 / 4) - share**2 / 4)
    bottom_tied = total / n - slope_tied * share / 2
    squares_tied = total_squares - bottom_tied * total - slope_tied * products
    tied = low > bottom
    return (
        np.where(tied, squares_tied, squares),
        np.where(tied, bottom_tied, low),
        np.where(tied, bottom_tied, bottom),
        np.where(tied, slope_tied, slope),
    )


def ladder_of_k(most: int) -> list[int]:
    """1, 2, 5, 10, 20, 50, ... up to `most`, which takes the place of what is within a tenth of it."""
    steps = (digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5))
    return sorted({1, most} | {k for k in steps if most - k > most / 10})


@dataclass(frozen=True)
class Study:
    """The lemma beside a trained critic, in states that its policy visits; values are means over the states."""

    states: int
    distinct: int
    """How many of the states differ."""
    candidates: int
    """Of each state: all of A, or as many of the nearest as were looked at."""
    p: float
    b: float
    c: float
    centre: float
    misfit: float
    """Root mean square difference between the fitted quantiles and the critic's."""
    proto_excess: float
    """The critic's value of the proto-action above the fitted centre; in the paper the two are the same."""
    k: list[int]
    predicted: list[float]
    """The best of the k nearest by Lemma 1."""
    shuffled: list[float]
    """The best of k candidates drawn at random: as the lemma, distance plays no role; the distribution is the critic's.
    """
    measured: list[float]
    """The best of the k nearest by the critic."""
    error: float
    """The largest difference of predicted and measured."""
    relative_error: float | None
    """That as a share of the measured gain from the first k to the last; None where there is no gain."""


def study(agent: Wolpertinger, observations: npt.ArrayLike, most: int = MOST) -> Study:
    """Lemma 1 fitted to the critic's values of the `most` actions nearest to the proto-action of each observation."""
    observations, most = np.asarray(observations), min(most, agent.actions.n)
    if most < 2:
        raise ValueError(f"most={most} of {agent.actions.n} actions: the lemma needs at least 2 to choose from")
    values, proto_values = candidate_values(agent, observations, most)
    best_first = -np.sort(-values.T, axis=0)
    ks = ladder_of_k(most)
    found = fit_pooled(values)
    predicted = found.expected_best(ks)
    measured = np.maximum.accumulate(values, axis=1).mean(axis=0)[np.asarray(ks) - 1]
    error, gain = float(np.abs(predicted - measured).max()), float(measured[-1] - measured[0])
    return Study(
        states=len(values),
        distinct=len(np.unique(observations.reshape(len(values), -1), axis=0)),
        candidates=most,
        **vars(found),
        proto_excess=float(proto_values.mean() - found.centre),
        k=ks,
        predicted=predicted.tolist(),
        shuffled=[best_of_random(best_first, k) for k in ks],
        measured=measured.tolist(),
        error=error,
        relative_error=error / gain if gain > 0 else None,
    )


def fit_pooled(values: Reals) -> Fit:
    """The lemma's distribution for values (states, K) whose states differ in location and spread only."""
    location, spread = values.mean(axis=1), values.std(axis=1)
    varied = spread > 0
    if not varied.any():
        return Fit(p=0.0, b=0.0, c=0.0, centre=float(location.mean()), misfit=0.0)
    pooled = fit((values[varied] - location[varied, None]) / spread[varied, None])
    return pooled.scaled(float(location.mean()), float(spread.mean()))


def best_of_random(best_first: Reals, k: int) -> float:
    """The mean over states of the best of k of a state's values (K, states), best first, over all ways to draw them."""
    n = len(best_first)
    place = np.arange(n, k, -1)
    # The i-th smallest is the best of the k with probability C(i - 1, k - 1) / C(n, k): k / n for the largest, and
    # (i - k) / (i - 1) of the last for each one below. The k - 1 smallest never are.
    chances = k / n * np.cumprod(np.concatenate(([1.0], (place - k) / (place - 1))))
    return float((chances @ best_first[: n - k + 1]).mean())


@torch.no_grad()
def candidate_values(agent: Wolpertinger, observations: npt.ArrayLike, k: int) -> tuple[Reals, Reals]:
    """The critic's values (states, k) of the k actions nearest to the proto-action, nearest first, and of the
    proto-action itself (states,).
    """
    agent.policy.set_training_mode(False)
    obs, _ = agent.policy.obs_to_tensor(np.asarray(observations))
    actions, critic = _exact(agent.actions), agent.critic
    proto = agent.actor(obs)
    states = States(obs, proto)
    ranking = Policy(actions, NearestSource(actions, critic), k, score_exactly).rank(states, critic, top=k)
    values = ranking.values.gather(1, ranking.order_found(proto))
    of_proto = critic(obs, proto).amin(dim=0)
    return values.double().cpu().numpy(), of_proto.double().cpu().numpy()


def _exact(actions: ActionSet) -> ActionSet:
    """The set with an exact lookup: an index with a recall would tune itself for every new k, and miss some neighbours.

    Ids may be others than in the given set, if actions were removed from it.
    """
    if getattr(actions, "recall", None) is None:
        return actions
    return ActionTable(np.concatenate([actions.embed(block) for block in actions.blocks(2**16)]))


def visited_observations(
    agent: Wolpertinger, env: VecEnv, n: int = STATES, *, steps: int, seed: int
) -> npt.NDArray[Any]:
    """n observations drawn from those of `steps` steps that the policy takes in all environments of `env`, without
    exploration; give about an episode's steps. Where these are fewer than n, it goes on until there are n.
    """
    steps = max(steps, -(-n // env.num_envs))
    env.seed(seed)
    seen = [env.reset()]
    while len(seen) < steps:
        seen.append(env.step(agent.predict(seen[-1], deterministic=True)[0])[0])  # type: ignore[arg-type]
    visited: npt.NDArray[Any] = np.concatenate(seen)  # type: ignore[arg-type]
    return visited[np.random.default_rng(seed).choice(len(visited), n, replace=False)]
