"""Settings of the paper's form for its largest catalogue."""

from typing import Any

# What to change for catalogues of ten thousand items and k in the hundreds, where re-ranking is nearly all of the time:
# one layer for each candidate, and layers for the state alone, which cost next to nothing. On 13,138 items of the
# Complete Journey the committed runs (results/, three seeds, two at a time, 300 seconds) came to 52 % of the optimum
# with k = 656, 55 to 57 % with k = 1 %, and 50 to 56 % with k = 1.
LARGE_CATALOGUE: dict[str, Any] = {
    "learning_rate": 1e-3,
    "final_learning_rate": 1e-5,
    "tau": 0.02,
    "policy_kwargs": {"net_arch": [128], "state_arch": [512, 256]},
}
