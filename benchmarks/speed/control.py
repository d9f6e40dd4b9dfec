"""Does training slow down with the number of actions? `python -m benchmarks.speed.control`.

HalfCheetah-v5 (six torques) in 3, 21 and 1,001 levels: 729, 85,766,121 and about 1e18 actions. Agents of the same
settings train in turn, so that what else the machine does hits all alike; the ratios are what counts.
"""

import statistics
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import torch

from benchmarks.measure import summarise, time_rounds, write_result
from wolpertinger import Wolpertinger, discretize

LEVELS = (3, 21, 1_001)
KS = (1, 64)
STEPS, ROUNDS = 200, 15


def trainer(levels: int, k: int) -> Callable[[], int]:
    """Work for `time_rounds`: a stretch of training, every step with its update."""
    agent = Wolpertinger("MlpPolicy", discretize(gym.make("HalfCheetah-v5"), levels), k=k, seed=0, learning_starts=100)
    agent.learn(2 * STEPS)  # warm up, and fill the buffer

    def train() -> int:
        agent.learn(STEPS, reset_num_timesteps=False)
        return STEPS

    return train


def main() -> None:
    torch.set_num_threads(1)
    seconds = time_rounds({f"{n}**6, k={k}": trainer(n, k) for k in KS for n in LEVELS}, ROUNDS)
    rows: dict[str, dict[str, Any]] = {}
    for k in KS:
        for n in LEVELS:
            name, base = f"{n}**6, k={k}", seconds[f"{LEVELS[0]}**6, k={k}"]
            ratio = statistics.median(own / few for own, few in zip(seconds[name], base, strict=True))
            rows[name] = {"actions": n**6, "k": k, "seconds_per_step": summarise(seconds[name]), "ratio_to_3**6": ratio}
            steps = 1 / rows[name]["seconds_per_step"]["median"]
            print(f"{name:16} {n**6:>22,} actions {steps:6.0f} steps/s  {ratio:.2f} times the time of 3**6")
    print(write_result("speed.control", {"rounds": ROUNDS, "steps_per_round": STEPS, "threads": 1, "rows": rows}))


if __name__ == "__main__":
    main()
