"""Why the policy picked what it picked."""

import sys
from dataclasses import dataclass

import numpy as np
import torch
from stable_baselines3.common.type_aliases import PyTorchObs

from wolpertinger.actions import Allowed
from wolpertinger.agent.policies import WolpertingerPolicy
from wolpertinger.policy import States


@dataclass(frozen=True)
class Explanation:
    """What the policy saw and picked; the first axis is the batch when one was given.

    Where a state allows fewer actions than others of its batch, its best one is repeated behind them, with value -inf.
    """

    proto: np.ndarray
    """The actor's proto-action (dim,); the middle of all vectors where candidates need no actor."""
    actions: np.ndarray
    """The candidates (k, ...): nearest first; behind them those that the critic found, best first."""
    distances: np.ndarray
    """From the proto-action to each candidate (k,)."""
    q: np.ndarray
    """The critic's value of each candidate (k,)."""
    chosen: np.ndarray
    """The candidate with the largest value."""
    sources: np.ndarray
    """Who found each candidate (k,): "nearest", "critic", "all" or, where they are few, "allowed"; one that was found
    twice stands twice, as "both"."""


@dataclass(frozen=True)
class RankedActions:
    """The best actions, best first; the first axis is the batch when one was given.

    Where a state allows fewer than others of its batch, its best one is repeated, with value -inf and source "".
    """

    actions: np.ndarray
    """(top, ...): ids, or digits."""
    values: np.ndarray
    """By the critic (top,)."""
    distances: np.ndarray
    """From the proto-action (top,); from the middle of all vectors where candidates need no actor."""
    sources: np.ndarray
    """Who found each action (top,): "nearest", "critic", "all", "allowed"."""


@torch.no_grad()
def rank_actions(policy: WolpertingerPolicy, obs: PyTorchObs, allowed: Allowed | None, top: int) -> list[np.ndarray]:
    """The parts of `RankedActions` for a batch of states, each with the batch as first axis."""
    k = max(policy.k, top)
    ranking = policy.rank(obs, allowed, top, k)
    if ranking.candidates.may_repeat:
        ranking = policy.rank(obs, allowed, sys.maxsize, k)
    tensors = (ranking.actions, ranking.values, ranking.distances(_proto(policy, ranking.states)))
    actions, values, distances = (part.cpu().numpy() for part in tensors)
    sources = _mark_repeated(actions, ranking.sources())
    firsts = [np.sort(np.unique(own, axis=0, return_index=True)[1])[:top] for own in actions]
    places = np.zeros((len(actions), max(map(len, firsts))), np.int64)  # the best one where a state has fewer
    is_real = np.arange(places.shape[1]) < np.array([len(first) for first in firsts])[:, None]
    places[is_real] = np.concatenate(firsts)
    rows = np.arange(len(actions))[:, None]
    shown = ((values, -np.inf), (distances, np.inf), (sources, ""))
    return [actions[rows, places], *(np.where(is_real, part[rows, places], none) for part, none in shown)]


def _proto(policy: WolpertingerPolicy, states: States) -> torch.Tensor:
    return policy.actor.scale.middle.expand(len(states), -1) if states.proto is None else states.proto


@torch.no_grad()
def explain(
    policy: WolpertingerPolicy, obs: PyTorchObs, allowed: Allowed | None, k: int | None = None
) -> list[np.ndarray]:
    """The parts of an `Explanation` for a batch of states, each with the batch as first axis."""
    whole = policy.rank(obs, allowed, sys.maxsize, k)  # every candidate
    states, proto = whole.states, _proto(policy, whole.states)
    order = whole.order_found(proto)
    rows = torch.arange(len(order), device=order.device).unsqueeze(1)
    parts = (whole.actions, whole.distances(proto), whole.values)
    actions, distances, values = (part[rows, order] for part in parts)
    sources = np.take_along_axis(whole.sources(), order.cpu().numpy(), axis=1)
    # By screening it may be another one.
    chosen = policy.predictor.rank(states, policy.predicting_critic).actions[:, 0]
    shown = (proto, actions, distances, values, chosen)
    return [*(part.cpu().numpy() for part in shown), _mark_repeated(actions.cpu().numpy(), sources)]


def _mark_repeated(actions: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Who found each candidate, "both" for what more than one source found."""
    if len(np.unique(sources)) < 2:
        return sources
    marked = sources.astype(object)
    for row, (own, names) in enumerate(zip(actions.reshape(*sources.shape, -1), sources, strict=True)):
        is_real = names != ""
        _, first, count = np.unique(own[is_real], axis=0, return_inverse=True, return_counts=True)
        marked[row, is_real] = np.where(count[first.ravel()] > 1, "both", names[is_real])
    return marked.astype(str)
