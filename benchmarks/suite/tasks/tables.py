"""Problems with a horizon whose actions are rows of a table: nothing tells the agent that they are levels or moves."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from benchmarks.suite.task import Task
from wolpertinger import ActionTable

TORQUES = np.linspace(-2, 2, 101, dtype=np.float32)[:, None]


class Torques(gym.ActionWrapper):
    """Pendulum-v1 with a choice of 101 torques; an action's vector is its torque."""

    def __init__(self) -> None:
        super().__init__(gym.make("Pendulum-v1"))
        self.action_space = spaces.Discrete(len(TORQUES))

    def action(self, action):
        return TORQUES[int(action)]


class Plane(gym.Env):
    """Reach a goal in a square by 200 moves of up to 0.15 in any direction; a move's vector is its displacement.

    Reward: 10 within 0.1 of the goal, which ends the episode, -0.2 a step before; cut after 60 steps.
    """

    MOVES, LONGEST, NEAR, STEPS = 200, 0.15, 0.1, 60

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        angle, length = rng.uniform(0, 2 * np.pi, self.MOVES), rng.uniform(0, self.LONGEST, self.MOVES)
        self.moves = (length * [np.cos(angle), np.sin(angle)]).T.astype(np.float32)
        self.action_space = spaces.Discrete(self.MOVES)
        self.observation_space = spaces.Box(-1, 1, (4,), np.float32)

    def _observe(self):
        return np.concatenate([self.at, self.goal]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = self.np_random.uniform(-1, 1, (2, 2))
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.at = np.clip(self.at + self.moves[action], -1, 1)
        self.steps += 1
        there = bool(np.linalg.norm(self.at - self.goal) < self.NEAR)
        return self._observe(), 10.0 if there else -0.2, there, self.steps == self.STEPS and not there, {}


def make_plane() -> tuple[gym.Env, ActionTable]:
    env = Plane()
    return env, ActionTable(env.moves)


def straight_line(episodes: int = 2_000) -> float:
    """The mean return of the move that comes nearest to the goal, which sees everything."""
    env, total = Plane(), 0.0
    for episode in range(episodes):
        env.reset(seed=episode)
        ended = False
        while not ended:
            left = np.linalg.norm(np.clip(env.at + env.moves, -1, 1) - env.goal, axis=1)
            _, reward, terminated, truncated, _ = env.step(int(left.argmin()))
            total, ended = total + reward, terminated or truncated
    return total / episodes


PENDULUM_TABLE = Task(
    make=lambda: (Torques(), ActionTable(TORQUES)),
    role="development",
    steps=20_000,
    random=-1_171.0,
    best=-145.0,
    best_is="TD3 and SAC, continuous actions",
)
PLANE = Task(
    make=make_plane,
    role="development",
    steps=20_000,
    random=-10.5,
    best=8.7,
    best_is="the move that comes nearest to the goal",
)

if __name__ == "__main__":
    print(straight_line())
