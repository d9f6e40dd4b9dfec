"""The paper's simulated user as a Markov decision process, with exact values of policies."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wolpertinger.envs.acceptance import Acceptance, Array, Ids, as_numbers
from wolpertinger.settings import check_kind

STAY_ACCEPTED = 0.9  # chance that the session continues after an accepted recommendation
STAY_REFUSED = 0.8  # and after a refused one


@dataclass(frozen=True)
class Solution:
    """A policy, its value in every state, and their mean over the uniformly random start: its return."""

    policy: Ids
    values: Array

    @property
    def value(self) -> float:
        """The return: the mean of `values`."""
        return float(self.values.mean())


class UserModel:
    """A user at item i accepts item j with chance W[i, j]: moves to j and pays r_j. Else the user moves to any item."""

    def __init__(self, acceptance: Acceptance, rewards: npt.ArrayLike) -> None:
        check_kind("acceptance", acceptance, Acceptance, "Acceptance(chances)")
        self.acceptance = acceptance
        self.n = acceptance.n
        self.rewards = as_numbers("rewards", rewards)
        if self.rewards.shape != (self.n,):
            raise ValueError(f"rewards has shape {self.rewards.shape}: give one for each of the {self.n} items")
        wrong = ~(np.isfinite(self.rewards) & (self.rewards >= 0))
        if wrong.any():
            first = int(wrong.argmax())
            raise ValueError(f"item {first} has the reward {self.rewards[first]}: give finite numbers of at least 0")

    def respond(self, states: Ids, items: Ids, rng: np.random.Generator) -> tuple[Ids, Array, npt.NDArray[np.bool_]]:
        """Sample the users' reactions to `items`: next states, rewards, and whose session ended."""
        chance, patience, wander = rng.random((3, states.size))
        accepted = chance < self.acceptance.at(states, items)
        next_states = np.where(accepted, items, (wander * self.n).astype(np.int64))
        ended = patience >= np.where(accepted, STAY_ACCEPTED, STAY_REFUSED)
        return next_states, accepted * self.rewards.take(items), ended

    def start(self, size: int, rng: np.random.Generator) -> Ids:
        """Draw the items that new users start at, uniformly."""
        return (rng.random(size) * self.n).astype(np.int64)

    @cached_property
    def optimum(self) -> Solution:
        """The optimal policy and its exact values, by policy iteration over the sparse W."""
        policy = self.acceptance.best(self.rewards)[1]
        values = self.evaluate(policy)
        while True:
            refused = STAY_REFUSED * values.mean()
            backup, policy = self.acceptance.best(self.gain(values))
            improved = self.evaluate(policy)
            if np.allclose(refused + backup, values, rtol=1e-9, atol=1e-12):
                return Solution(policy, improved)
            values = improved

    def gain(self, values: Array) -> Array:
        """Return the value of each item if accepted minus if refused (n,): W[i, j] * gain[j] orders the items at i."""
        return self.rewards + STAY_ACCEPTED * values - STAY_REFUSED * values.mean()

    def evaluate(self, policy: Any) -> Array:
        """Exact value of every state under a policy: an item per state (n,), or a matrix of chances (n, n)."""
        if np.ndim(policy) == 2 and np.shape(policy) != (self.n, self.n):
            raise ValueError(
                f"policy of shape {np.shape(policy)}: give ({self.n}, {self.n}), chances in rows that sum to 1"
            )
        if sp.issparse(policy) or np.ndim(policy) == 2:
            return self._evaluate_chances(sp.csr_array(policy))
        items = np.asarray(policy)
        if items.shape != (self.n,) or items.dtype.kind not in "iu" or items.min() < 0 or items.max() >= self.n:
            raise ValueError(f"policy of shape {items.shape}, {items.dtype}: give an item 0..{self.n - 1} per state")
        chance = self.acceptance.at(np.arange(self.n), items)
        pay = chance * self.rewards[items]
        return _fixed_point(
            lambda v: pay + chance * STAY_ACCEPTED * v[items] + (1 - chance) * STAY_REFUSED * v.mean(), self.n
        )

    def _evaluate_chances(self, policy: sp.csr_array) -> Array:
        fits = policy.shape == (self.n, self.n)
        if not fits or policy.min() < 0 or not np.allclose(policy.sum(axis=1), 1):
            raise ValueError(
                f"policy of shape {policy.shape}: give ({self.n}, {self.n}), chances in rows that sum to 1"
            )
        pairs = policy.tocoo()
        accepted = sp.csr_array(
            (pairs.data * self.acceptance.at(pairs.row, pairs.col), (pairs.row, pairs.col)), shape=policy.shape
        )
        chance, pay = (np.asarray(accepted @ weights) for weights in (np.ones(self.n), self.rewards))
        return _fixed_point(
            lambda v: pay + STAY_ACCEPTED * (accepted @ v) + (1 - chance) * STAY_REFUSED * v.mean(), self.n
        )

    @cached_property
    def random_value(self) -> float:
        """Exact return of recommending uniformly at random."""
        chance = self.acceptance.dot(np.ones(self.n)) / self.n
        pay = self.acceptance.dot(self.rewards) / self.n

        def backup(v: Array) -> Array:
            return pay + STAY_ACCEPTED * self.acceptance.dot(v) / self.n + (1 - chance) * STAY_REFUSED * v.mean()

        return float(_fixed_point(backup, self.n).mean())

    @cached_property
    def best_fixed(self) -> Solution:
        """The best of the n policies that always recommend one item."""
        # Always j: only V_j and the mean m are unknown. V_j = w(r + .9 V_j) + (1 - w) .8 m with w = W[j, j], and
        # m = u(r + .9 V_j) + (1 - u) .8 m with u the mean of column j.
        w, u, r = self.acceptance.diagonal(), self.acceptance.column_means(), self.rewards
        from_mean = (1 - w) * STAY_REFUSED / (1 - STAY_ACCEPTED * w)
        from_pay = w * r / (1 - STAY_ACCEPTED * w)
        mean = u * (r + STAY_ACCEPTED * from_pay) / (1 - (1 - u) * STAY_REFUSED - u * STAY_ACCEPTED * from_mean)
        policy = np.full(self.n, int(mean.argmax()))
        return Solution(policy, self.evaluate(policy))


def _fixed_point(backup: Callable[[Array], Array], n: int) -> Array:
    """Iterate a contraction of factor 0.9 or less to machine precision."""
    values = np.zeros(n)
    while True:
        backed_up = backup(values)
        if np.allclose(backed_up, values, rtol=1e-12, atol=1e-14):
            return backed_up
        values = backed_up
