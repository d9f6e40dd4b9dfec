"""What is in a log, in one pass over its rows."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wolpertinger.data.transitions import Transitions

MOST_COMMON = 10  # actions that are listed


@dataclass(frozen=True)
class Description:
    """Sizes, returns and actions of a log."""

    rows: int
    episodes: int
    unusable: int
    """Rows that say nothing of what came next."""
    lengths: npt.NDArray[np.int64]
    """Of the episodes."""
    returns: npt.NDArray[np.float64]
    """Of the episodes, not discounted."""
    rewarded: float
    """Share of rows whose reward is not 0."""
    actions: npt.NDArray[np.int64]
    """That were taken, the most common first: ids (m,) or digits (m, d)."""
    counts: npt.NDArray[np.int64]
    """How often each."""
    propensities: tuple[float, float] | None
    """The least and the largest, where the log has them."""
    allowed: float | None
    """Actions that a row allows, on average, where the log says so."""

    @property
    def common_share(self) -> float:
        """Of all rows, that took one of the most common actions."""
        return float(self.counts[:MOST_COMMON].sum() / self.rows)


def describe(log: Transitions) -> Description:
    """Sizes, returns and actions of a log."""
    lengths, returns = _episodes(log)
    actions, counts = _count_actions(log)
    order = np.argsort(-counts, kind="stable")
    chances = log["propensity"] if log.has_propensities else None
    return Description(
        rows=len(log),
        episodes=log.n_episodes,
        unusable=log.n_unusable,
        lengths=lengths,
        returns=returns,
        rewarded=sum(np.count_nonzero(log["reward"][part]) for part in log.parts()) / len(log),
        actions=actions[order],
        counts=counts[order],
        propensities=None if chances is None else (float(chances.min()), float(chances.max())),
        allowed=None if log.allowed is None else len(log.allowed[0]) / len(log),
    )


def _episodes(log: Transitions) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Lengths and returns; an episode may reach over several parts."""
    number = 0
    lengths, returns = np.zeros(log.n_episodes, np.int64), np.zeros(log.n_episodes)
    for part in log.parts():
        ends = np.asarray(log.ends[part])
        own = number + np.concatenate([[0], np.cumsum(ends[:-1])])
        np.add.at(lengths, own, 1)
        np.add.at(returns, own, np.asarray(log["reward"][part], np.float64))
        number = int(own[-1] + ends[-1])
    return lengths, returns


def _count_actions(log: Transitions) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    actions, counts = log["action"][:0].astype(np.int64), np.zeros(0, np.int64)
    for part in log.parts(2**20):
        new = np.asarray(log["action"][part]).astype(np.int64)
        actions, place = np.unique(np.concatenate([actions, new]), axis=0, return_inverse=True)
        weights = np.concatenate([counts, np.ones(len(new), np.int64)])
        counts = np.bincount(place.reshape(-1), weights=weights, minlength=len(actions)).astype(np.int64)
    return actions, counts
