import numpy as np
import pytest

from wolpertinger.paper.statistics import estimate, iqm, join_curves


def brute_force_iqm(values):
    ordered = sorted(values)
    cut = len(ordered) // 4
    return np.mean(ordered[cut : len(ordered) - cut])


@pytest.mark.parametrize("n", range(1, 13))
def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end(n):
    values = np.random.default_rng(n).normal(size=n)
    assert iqm(values) == pytest.approx(brute_force_iqm(values))


def test_an_interval_covers_the_mean_as_often_as_it_says_or_nearly():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(200, 12))
    inside = [found.low <= 0 <= found.high for found in (estimate(list(sample)) for sample in samples)]
    assert 0.85 < np.mean(inside) < 0.99  # percentile intervals of few values are a little short


def test_one_seed_has_no_interval():
    found = estimate([0.5])
    assert (found.value, found.low, found.high, found.seeds) == (0.5, -np.inf, np.inf, 1)


def test_a_difference_resamples_each_sample_for_itself():
    found = estimate([3.0, 3.0, 3.0], [1.0, 2.0, 3.0], of=lambda a, b: a - b)
    assert found.value == pytest.approx(1.0)
    assert found.low == pytest.approx(0.0)
    assert found.high == pytest.approx(2.0)
    assert found.seeds == 3


def test_curves_are_joined_as_far_as_all_of_them_go():
    curve = join_curves([([0, 10], [0, 1]), ([0, 20], [0, 4])])
    assert (curve.x[0], curve.x[-1]) == (0, 10)
    assert curve.y[-1] == pytest.approx((1 + 2) / 2)
    assert np.all(curve.low <= curve.y + 1e-12)
    assert np.all(curve.y <= curve.high + 1e-12)
