"""The limits' arithmetic, beside refitting and known answers."""

import numpy as np

from benchmarks.learning.recommender_limits import estimate, left_out

RNG = np.random.default_rng(0)


def test_leaving_a_row_out_is_fitting_without_it():
    inputs, outputs = RNG.normal(size=(30, 4)), RNG.normal(size=(30, 3))
    found = left_out(inputs, outputs, 2.0)
    for row in range(30):
        others = np.arange(30) != row
        x, y = inputs[others], outputs[others]
        fit = np.linalg.solve(x.T @ x + 2.0 * np.eye(4), x.T @ y)
        np.testing.assert_allclose(found[row], inputs[row] @ fit)


def test_many_recommendations_tell_the_chances_and_few_only_their_mean():
    chances = RNG.uniform(0.05, 0.3, size=(200, 2))
    errors = [np.abs(estimate(chances, total, RNG) - chances).mean() for total in (10**8, 40_000, 400)]
    assert errors[0] < 0.002 < errors[1] < errors[2]
    assert errors[2] <= 1.05 * np.abs(chances - chances.mean(axis=0)).mean()  # never worse than that
