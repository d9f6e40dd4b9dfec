"""What replay buffers keep of what states allow, and what that costs."""

import numpy as np
import pytest

from wolpertinger.agent.allowed_store import Pool


@pytest.mark.parametrize("allowed", [1, 100, 1_000])
@pytest.mark.parametrize("is_overwritten", [False, True])
def test_a_transition_takes_less_than_64_bytes_and_4_per_allowed_action(monkeypatch, allowed, is_overwritten):
    """In buffers that are large beside a block, as a million transitions are."""
    monkeypatch.setattr("wolpertinger.agent.allowed_store.BLOCK", 2**14)
    size = 4_000
    pool, row = Pool((size, 1), np.int32), np.arange(allowed)
    for position in range(2 * size + 7 if is_overwritten else size):
        pool.write(position % size, [row])
    assert pool.nbytes < size * (64 + 4 * allowed)
    for place in (0, 6, size // 2, size - 1):
        np.testing.assert_array_equal(pool.read(np.array([place]), np.array([0]))[0], row)
