"""The best known return of the cart-pole, start by start: the yardstick of an agent's."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

import wolpertinger  # noqa: F401 - registers the environments
from benchmarks.cartpole_control import Array, FeedbackController
from wolpertinger.envs.cartpole import MAX_FORCE

ID = "wolpertinger/CartPoleSwingUp-v0"
SEED, EVALUATION_STARTS = 10_000, 100


def play(controller: Callable[[npt.NDArray[Any]], Array], env: gym.vector.VectorEnv, seed: int = SEED) -> Array:
    """Return of one episode of each cart, by what the environment pays for the level nearest to each force."""
    observations, _ = env.reset(seed=seed)
    returns, over = np.zeros(env.num_envs), False
    highest = env.single_action_space.n - 1
    while not over:
        forces = controller(observations)
        levels = np.rint((forces + MAX_FORCE) / (2 * MAX_FORCE) * highest).astype(np.int64)
        observations, rewards, _, truncated, _ = env.step(levels)
        returns, over = returns + rewards, truncated[0]
    return returns


def main() -> None:
    env = gym.make_vec(ID, num_envs=EVALUATION_STARTS)
    lengths = env.reset(seed=SEED)[0][:, 5].astype(float)
    returns = play(FeedbackController(lengths), env)
    print(f"feedback: {returns.mean():.1f}, {returns.min():.0f} to {returns.max():.0f}")


if __name__ == "__main__":
    main()
