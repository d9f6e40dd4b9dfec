import time

import pytest

from wolpertinger.policy.timing import SectionTimer


def test_a_section_inside_another_counts_for_itself_only():
    timer = SectionTimer()
    start = time.perf_counter()
    with timer("update"):
        time.sleep(0.01)
        with timer("lookup"):
            time.sleep(0.03)
        with timer("rerank"):
            time.sleep(0.02)
    total = time.perf_counter() - start
    assert set(timer.seconds) == {"update", "lookup", "rerank"}
    assert timer.seconds["lookup"] >= 0.03
    assert timer.seconds["update"] < timer.seconds["lookup"] + timer.seconds["rerank"]
    assert sum(timer.seconds.values()) == pytest.approx(total, abs=0.01)


def test_an_error_inside_a_section_passes_through():
    timer = SectionTimer()
    with pytest.raises(ValueError, match="no"), timer("update"):
        raise ValueError("no")
    assert timer.seconds["update"] >= 0
