"""Lemma 1's closed form beside random draws."""

from typing import Any

import numpy as np

from reproduction.lemma import expected_best, simulate

SETTINGS = ((0.0, 1.0), (0.2, 1.0), (0.5, 2.0), (0.9, 4.0))  # p and c, where b = 1 and q = 0
KS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500)
DRAWS = 20_000


def check(seed: int) -> dict[str, Any]:
    """Both for some p, c and k, with the standard error of the draws."""
    rng = np.random.default_rng(seed)
    rows = []
    for p, c in SETTINGS:
        for k in KS:
            mean, error = simulate(k, 0.0, p, 1.0, c, draws=DRAWS, rng=rng)
            formula = float(expected_best(k, 0.0, p, 1.0, c))
            rows.append({"p": p, "c": c, "k": k, "formula": formula, "simulated": mean, "standard_error": error})
    return {"rows": rows, "draws": DRAWS}
