"""A two-tower critic's best of the allowed actions: by a product with their keys, or by a search for more."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from wolpertinger.actions import Allowed
from wolpertinger.actions.nearest_allowed import join, scan_pays, widen
from wolpertinger.index import largest_products
from wolpertinger.policy.states import States

if TYPE_CHECKING:
    from wolpertinger.policy.critic_search import CriticSearch

GATHERED = 8  # keys are read in the time that it takes to gather one
NARROWED_FROM = 4  # times as many actions as are to be kept: fewer go through the action tower as fast


def best_allowed(search: "CriticSearch", states: States, k: int) -> Allowed:
    """The k of what each state allows that the snapshot values most, best first; all, where they are fewer."""
    allowed, queries, n = states.allowed, search.snapshot.queries(states.obs), search.actions.n
    assert allowed is not None
    most = 0 if search.has_index else n // GATHERED
    is_new = allowed.own_vectors is not None
    scanned = np.array([is_new or m <= most or scan_pays(int(m), k, n) for m in allowed.counts])
    found: list[Allowed] = [allowed.rows(slice(0, 0))] * len(allowed)
    for number in np.flatnonzero(scanned).tolist():
        own = allowed.rows(slice(number, number + 1)).listed()
        best = largest_products(queries[number : number + 1], _keys(search, own), min(k, len(own.states[0])))[0]
        found[number] = own.pick(best.numpy(force=True))
    if (rest := np.flatnonzero(~scanned)).size:
        wider = widen(
            lambda rows, wanted: search.best(queries[rest[rows]], wanted).numpy(force=True), allowed.rows(rest), k, n
        )
        for number, row in zip(rest.tolist(), wider, strict=True):
            found[number] = Allowed([row])
    return join(found)


def narrow_by_keys(search: "CriticSearch", states: States, k: int) -> States:
    """The states with the k of what each allows that the snapshot values most, all states together; with all of it
    where that is not much more, or where vectors come with the state and have no key.
    """
    allowed = states.allowed
    assert allowed is not None
    if allowed.own_vectors is not None or allowed.counts.sum() <= NARROWED_FROM * k * len(states):
        return states
    # As many in each state: its last one stands for those that are missing.
    places = allowed.offsets[:-1, None] + np.minimum(np.arange(allowed.counts.max()), allowed.counts[:, None] - 1)
    given = torch.from_numpy(allowed.actions[places.flatten()]).to(states.device)
    keys = search.keys().of_actions(given, search.actions.space).view(*places.shape, -1)
    products = torch.bmm(keys, search.snapshot.queries(states.obs).unsqueeze(-1)).squeeze(-1)
    best = products.topk(min(k, places.shape[1]), dim=1).indices.numpy(force=True)
    return replace(states, allowed=Allowed(list(allowed.actions[np.take_along_axis(places, best, axis=1)])))


def _keys(search: "CriticSearch", own: Allowed) -> Tensor:
    """The keys of one state's actions."""
    device = search.snapshot.scale.middle.device
    if own.own_vectors is not None:
        return search.snapshot.keys(torch.from_numpy(own.own_vectors[0]).to(device))
    return search.keys().of_actions(torch.from_numpy(own.actions).to(device), search.actions.space)
