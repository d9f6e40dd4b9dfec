"""A two-tower critic's best of the allowed actions: by a product with their keys, or by a search for more."""

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


def best_allowed(search: "CriticSearch", states: States, k: int) -> Allowed:
    """The k of what each state allows that the snapshot values most, best first; all, where they are fewer."""
    allowed, queries, n = states.allowed, search.snapshot.queries(states.obs), search.actions.n
    assert allowed is not None
    scanned = np.array([allowed.own_vectors is not None or scan_pays(int(m), k, n) for m in allowed.counts])
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


def _keys(search: "CriticSearch", own: Allowed) -> Tensor:
    """The keys of one state's actions."""
    device = search.snapshot.scale.middle.device
    if own.own_vectors is not None:
        return search.snapshot.keys(torch.from_numpy(own.own_vectors[0]).to(device))
    return search.keys().of_actions(torch.from_numpy(own.actions).to(device), search.actions.space)
