"""When the recall of checked lookups counts as short of the target."""

import numpy as np
import pytest

from wolpertinger.index import ExactIndex, FaissIndex
from wolpertinger.index.faiss import Effort
from wolpertinger.index.monitor import LookupStats, MonitoredIndex

VECTORS = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)


@pytest.fixture
def state():
    index = FaissIndex(VECTORS, "IVF4,Flat", effort=Effort(nprobe=2))
    return MonitoredIndex(index, "IVF4,Flat", rows=200, every=50.0, countdown=50.0)


@pytest.mark.parametrize(("misses", "is_short"), [(0, False), (4, False), (7, False), (20, True), (64, True)])
def test_noise_near_the_target_is_no_shortfall(state, misses, is_short):
    state.window.extend([0.0] * misses + [1.0] * (64 - misses))  # a target of 0.9 allows 6.4 of 64
    assert state.falls_short(0.9) == is_short


def test_stats_average_the_last_checks(state):
    assert state.stats(3, 0.9) == LookupStats(3, 0.9, None, 0, 1, "IVF4,Flat (nprobe 2)")
    state.window.extend([0.5, 1.0])
    state.checked = 2
    assert state.stats(3, 0.9) == LookupStats(3, 0.9, 0.75, 2, 1, "IVF4,Flat (nprobe 2)")


def test_a_scan_has_a_recall_of_1():
    state = MonitoredIndex(ExactIndex(VECTORS), "exact", rows=200, every=50.0, countdown=50.0)
    assert state.stats(3, 0.9) == LookupStats(3, 0.9, 1.0, 0, 1, "exact")
