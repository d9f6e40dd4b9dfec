"""The recall that a table promises holds among what a state allows."""

import numpy as np
import pytest

from wolpertinger import ActionTable
from wolpertinger.actions import read_allowed

N, DIM, K, PROMISED = 20_000, 8, 10, 0.9
VECTORS = np.random.default_rng(0).normal(size=(N, DIM)).astype(np.float32)


def recall_among(table, share, batches=4):
    """Of the allowed neighbours, in the last of several batches: an index is tuned for a k that is asked for again."""
    rng = np.random.default_rng(1)
    for _ in range(batches):
        protos = rng.normal(size=(64, DIM)).astype(np.float32)
        own = [np.sort(rng.choice(N, round(share * N), replace=False)) for _ in protos]
        found = table.nearest_allowed(protos, K, read_allowed(own, table))
    hits = 0
    for proto, allowed, row in zip(protos, own, found.states, strict=True):
        distances = ((VECTORS[allowed] - proto) ** 2).sum(axis=1)
        assert np.isin(row, allowed).all()
        assert len(set(row.tolist())) == K
        hits += len(set(row.tolist()) & set(allowed[np.argsort(distances)[:K]].tolist()))
    return hits / (K * len(protos))


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_a_promised_recall_holds_among_the_allowed_ones(share):
    table = ActionTable(VECTORS, index="IVF64,Flat", recall=PROMISED)
    assert recall_among(table, share) >= PROMISED


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_an_exact_table_finds_all_of_them(share):
    assert recall_among(ActionTable(VECTORS), share, batches=1) == 1.0
