"""The paper's own figures of speed."""

# Steps per second, as the paper prints them: k, then its setting of FLANN.
STEPS_PER_SECOND: dict[str, dict[int, dict[str, float]]] = {
    "cart-pole": {
        1: {"exact": 18, "slow": 2.4, "medium": 8.5, "fast": 23},
        5_000: {"exact": 0.6, "slow": 0.6, "medium": 0.7, "fast": 0.7},
    },
    "puddle-world": {
        1: {"exact": 4.8, "medium": 119, "fast": 125},
        5_242: {"exact": 0.2, "medium": 0.2, "fast": 0.2},
        1 << 20: {"exact": 0.1, "medium": 0.1, "fast": 0.1},
    },
    "recommender": {
        1: {"exact": 31, "slow": 50, "medium": 69, "fast": 68},
        131: {"exact": 23, "slow": 37, "medium": 37, "fast": 37},
        656: {"exact": 10, "slow": 13, "medium": 12, "fast": 14},
        1_313: {"exact": 7, "slow": 7.5, "medium": 7.5, "fast": 7},
        13_138: {"exact": 1.5, "slow": 1.6, "medium": 1.5, "fast": 1.4},
    },
}

SPEED_UP = 1_250.0  # for equal performance, on Puddle World
