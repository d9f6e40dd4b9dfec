"""Candidates and their values where states say what they allow: no other action is ever looked at."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from wolpertinger.actions import Allowed, TooManyActionsError
from wolpertinger.actions.allowed import Actions
from wolpertinger.actions.base import MAX_CANDIDATES
from wolpertinger.networks import Critic
from wolpertinger.policy.candidates import RaggedCandidates
from wolpertinger.policy.ranking import Best, largest
from wolpertinger.policy.scoring import evaluate, evaluate_pairs, evaluate_shared
from wolpertinger.policy.sources import CandidateSource
from wolpertinger.policy.states import States

DIRECT = 2_048  # allowed actions of a state up to which all of them are candidates, whatever k
AT_ONCE = 2**16  # candidates embedded and scored together
PADDED = 2**22  # values at a time, states with few actions counted as if they had as many as others


def find_allowed(source: CandidateSource, states: States, k: int) -> RaggedCandidates:
    """The candidates of each state among what it allows, at least one: few allowed actions are all candidates, among
    many the source finds k. Whatever a source finds, nothing else comes out.
    """
    allowed = states.allowed
    assert allowed is not None
    few = allowed.counts <= max(k, DIRECT)
    if few.all():
        return RaggedCandidates(allowed.listed(), ("allowed",))
    many = np.flatnonzero(~few)
    chosen = states if len(many) == len(few) else states.rows(torch.from_numpy(many).to(states.device))
    assert chosen.allowed is not None
    found = source.find_allowed(chosen, k)
    legal = chosen.allowed.holds(found.found.states)
    if len(many) == len(few) and all(inside.all() and len(inside) for inside in legal):
        return found
    rows: list[list[tuple[str, Allowed]]] = [[] for _ in few]
    for number, place in enumerate(many.tolist()):
        rows[place] = found.of_state(number, legal[number])
    return RaggedCandidates.gather(
        [own or [("allowed", _listed(source, allowed, number))] for number, own in enumerate(rows)]
    )


def _listed(source: CandidateSource, allowed: Allowed, number: int) -> Allowed:
    """All that one state allows, where nothing else was found."""
    own = allowed.rows(slice(number, number + 1))
    if own.counts[0] > MAX_CANDIDATES:
        raise TooManyActionsError(
            f"{type(source).__name__} found none of the {own.counts[0]} allowed actions of a state, "
            'which are too many to go through: candidates="nearest" finds them'
        )
    return own.listed()


@torch.no_grad()
def best_of_ragged(
    embed: Callable[[Tensor], Tensor], states: States, critic: Critic, top: int, candidates: RaggedCandidates
) -> Best:
    """The `top` best of each state's candidates. Where a state has fewer, its best one is repeated with value -inf."""
    found, device = candidates.found, states.device
    actions, counts = torch.from_numpy(found.actions).to(device), torch.from_numpy(found.counts).to(device)
    first = torch.from_numpy(found.offsets[:-1]).to(device)
    if found.vectors is not None:
        own = torch.from_numpy(found.vectors).to(device)

    def vectors_at(places: slice | Tensor) -> Tensor:
        return embed(actions[places]) if found.vectors is None else own[places]

    features, numbers = critic.features(states.obs), torch.arange(len(states), device=device).repeat_interleave(counts)
    blocks = [slice(start, start + AT_ONCE) for start in range(0, len(actions), AT_ONCE)]
    if critic.has_keys and found.vectors is None and actions.dim() == 1:  # states share actions, whose keys they share
        distinct, place = np.unique(found.actions, return_inverse=True)
        shared, places_of = embed(torch.from_numpy(distinct).to(device)), torch.from_numpy(place).to(device)
        values = evaluate_shared(critic, features, shared, [(numbers[block], places_of[block]) for block in blocks])
    elif len(blocks) == 1 and (found.counts == found.counts[0]).all():  # as many in each state, which goes faster
        own_vectors = vectors_at(slice(None)).view(len(states), len(actions) // len(states), -1)
        values = evaluate(critic, features, own_vectors).flatten()
    else:
        values = torch.cat([evaluate_pairs(critic, features, vectors_at(block), numbers[block]) for block in blocks])
    values = critic.values.invert(values)
    ranked, places = _largest_of_rows(values, found.offsets, min(top, int(counts.max())))
    flat = first.unsqueeze(1) + torch.where(places < counts.unsqueeze(1), places, places[:, :1])
    mean = torch.zeros_like(features[:, 0]).index_add_(0, numbers, values) / counts
    return Best(actions[flat], vectors_at(flat), ranked, places, mean, int(counts.max()))


def _largest_of_rows(values: Tensor, offsets: Actions, m: int) -> tuple[Tensor, Tensor]:
    """The m largest values of each row and their places in it, largest first; -inf behind the last."""
    counts, parts = np.diff(offsets), []
    step = max(1, PADDED // int(counts.max()))
    for start in range(0, len(counts), step):
        own = torch.from_numpy(counts[start : start + step]).to(values.device)
        columns = torch.arange(max(m, int(own.max())), device=values.device)
        padded = values.new_full((len(own), len(columns)), -torch.inf)
        padded[columns < own.unsqueeze(1)] = values[offsets[start] : offsets[min(start + step, len(counts))]]
        parts.append(largest(padded, m))
    return torch.cat([found for found, _ in parts]), torch.cat([places for _, places in parts])
