"""An environment that takes its time, and whose observations say which one it is and how many there were before."""

import time
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

ENV_ID = "benchmarks.distributed.stamped:Stamped-v0"  # `gym.make` imports the module
EPISODE = 20
LARGEST = 2**24  # whole numbers that float32 holds


class Stamped(gym.Env):
    """Observations are (stamp of the environment, count); no two observations anywhere are the same.

    :param wait: seconds a step takes, of waiting for others.
    :param work: seconds a step takes, of the processor.
    """

    observation_space = spaces.Box(0, LARGEST, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, wait: float = 0.0, work: float = 0.0) -> None:
        self.wait, self.work = wait, work
        self.stamp, self.count, self.left = 0, 0, EPISODE

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[npt.NDArray, dict[str, Any]]:
        super().reset(seed=seed)
        if not self.stamp:
            self.stamp = int(np.random.default_rng().integers(1, LARGEST))  # of nobody's seed
        self.count, self.left = self.count + 1, EPISODE
        return self._observe(), {}

    def step(self, action: Any) -> tuple[npt.NDArray, float, bool, bool, dict[str, Any]]:
        if self.wait:
            time.sleep(self.wait)
        until = time.process_time() + self.work
        while time.process_time() < until:
            pass
        reward = earned(self.count, float(action[0]))
        self.count, self.left = self.count + 1, self.left - 1
        return self._observe(), reward, self.left == 0, False, {}

    def _observe(self) -> npt.NDArray[np.float32]:
        return np.array([self.stamp, self.count], np.float32)


def earned(count: Any, action: Any) -> Any:
    """The reward of a step, which shows whether observation, action and reward belong together."""
    return count % 10 + action


def count_faults(obs: npt.NDArray, next_obs: npt.NDArray, actions: npt.NDArray, rewards: npt.NDArray) -> dict[str, int]:
    """Transitions (n, ...) by what is wrong with them; `actions` are levels."""
    seen = {(int(stamp), int(count)) for stamp, count in obs}
    right = (next_obs[:, 0] == obs[:, 0]) & (next_obs[:, 1] == obs[:, 1] + 1)
    right &= np.isclose(rewards, earned(obs[:, 1], actions), atol=1e-5)
    return {"transitions": len(obs), "corrupt": int((~right).sum()), "twice": len(obs) - len(seen)}


gym.register("Stamped-v0", entry_point=f"{__name__}:Stamped", nondeterministic=True)
KINDS = {"Waiting": {"wait": 0.002}, "Working": {"work": 0.002}, "Dawdling": {"wait": 0.02}}
for name, options in KINDS.items():
    gym.register(f"{name}-v0", entry_point=f"{__name__}:Stamped", nondeterministic=True, kwargs=options)
