import numpy as np
import pytest
from scipy import stats

from reproduction.statistics import estimate, iqm, join_curves


def brute_force_iqm(values):
    ordered = sorted(values)
    cut = len(ordered) // 4
    return np.mean(ordered[cut : len(ordered) - cut])


@pytest.mark.parametrize("n", range(1, 13))
def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end(n):
    values = np.random.default_rng(n).normal(size=n)
    assert iqm(values) == pytest.approx(brute_force_iqm(values))


@pytest.mark.parametrize("n", [3, 5, 12])
def test_an_interval_covers_the_truth_as_often_as_it_says(n):
    rng = np.random.default_rng(0)
    alone = [estimate(sample) for sample in rng.normal(size=(2_000, n))]
    assert np.mean([found.low <= 0 <= found.high for found in alone]) == pytest.approx(0.95, abs=0.02)
    pairs = zip(rng.normal(size=(2_000, n)), 3 * rng.normal(size=(2_000, n)), strict=True)
    differences = [estimate(*pair, of=lambda a, b: a - b) for pair in pairs]
    assert np.mean([found.low <= 0 <= found.high for found in differences]) == pytest.approx(0.95, abs=0.025)
    ratios = [estimate(3 + 0.3 * rng.normal(size=n), 2 + 0.2 * rng.normal(size=n), of=np.divide) for _ in range(2_000)]
    assert np.mean([found.low <= 1.5 <= found.high for found in ratios]) == pytest.approx(0.95, abs=0.025)


def test_one_seed_has_no_interval():
    found = estimate([0.5])
    assert (found.value, found.low, found.high, found.seeds) == (0.5, -np.inf, np.inf, 1)


def test_a_difference_is_that_of_welch():
    first, second = [3.0, 3.5, 3.1], [1.0, 2.0, 3.0, 2.5]
    found = estimate(first, second, of=lambda a, b: a - b)
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.value == pytest.approx(np.mean(first) - np.mean(second))
    assert found.seeds == 3


def test_seeds_that_agree_leave_no_doubt():
    found = estimate([2.0, 2.0, 2.0])
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


def test_curves_are_joined_as_far_as_all_of_them_go():
    curve = join_curves([([0, 10], [0, 1]), ([0, 20], [0, 4])])
    assert (curve.x[0], curve.x[-1]) == (0, 10)
    assert curve.y[-1] == pytest.approx((1 + 2) / 2)
    assert np.all(curve.low <= curve.y + 1e-12)
    assert np.all(curve.y <= curve.high + 1e-12)
