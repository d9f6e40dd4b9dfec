"""Why the policy picked what it picked."""

import sys
from dataclasses import dataclass

import numpy as np
import torch
from stable_baselines3.common.type_aliases import PyTorchObs

from wolpertinger.agent.policies import WolpertingerPolicy


@dataclass(frozen=True)
class Explanation:
    """What the policy saw and picked; the first axis is the batch when one was given."""

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
    """Who found each candidate (k,): "nearest", "critic" or "all"; one that was found twice stands twice, as "both"."""


@torch.no_grad()
def explain(policy: WolpertingerPolicy, obs: PyTorchObs) -> list[np.ndarray]:
    """The parts of an `Explanation` for a batch of states, each with the batch as first axis."""
    predictor, critic = policy.predictor, policy.predicting_critic
    predictor.source.expire()
    states = predictor.propose(policy.actor, obs)
    whole = predictor.rank(states, critic, top=sys.maxsize)  # every candidate
    proto = policy.actor.scale.middle.expand(len(states), -1) if states.proto is None else states.proto
    order = whole.order_found(proto)
    rows = torch.arange(len(order), device=order.device).unsqueeze(1)
    parts = (whole.actions, whole.distances(proto), whole.values)
    actions, distances, values = (part[rows, order] for part in parts)
    sources = np.take_along_axis(whole.sources(), order.cpu().numpy(), axis=1)
    chosen = predictor.rank(states, critic).actions[:, 0]  # by screening it may be another one
    shown = (proto, actions, distances, values, chosen)
    return [*(part.cpu().numpy() for part in shown), _mark_repeated(actions.cpu().numpy(), sources)]


def _mark_repeated(actions: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Who found each candidate, "both" for what more than one source found."""
    if len(np.unique(sources)) < 2:
        return sources
    marked = sources.astype(object)
    for row, (own, names) in enumerate(zip(actions.reshape(*sources.shape, -1), sources, strict=True)):
        _, first, count = np.unique(own, axis=0, return_inverse=True, return_counts=True)
        marked[row] = np.where(count[first.ravel()] > 1, "both", names)
    return marked.astype(str)
