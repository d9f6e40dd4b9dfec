import time

import pytest
from wolpertinger.agent.clock import Clock


def test_a_block_inside_another_counts_for_itself_only():
    clock = Clock()
    start = time.perf_counter()
    with clock("update"):
        time.sleep(0.01)
        with clock("lookup"):
            time.sleep(0.03)
        with clock("rerank"):
            time.sleep(0.02)
    total = time.perf_counter() - start
    assert set(clock.seconds) == {"update", "lookup", "rerank"}
    assert clock.seconds["lookup"] >= 0.03
    assert clock.seconds["update"] < clock.seconds["lookup"] + clock.seconds["rerank"]
    assert sum(clock.seconds.values()) == pytest.approx(total, abs=0.01)


def test_an_error_inside_a_block_passes_through():
    clock = Clock()
    with pytest.raises(ValueError, match="no"), clock("update"):
        raise ValueError("no")
    assert clock.seconds["update"] >= 0
