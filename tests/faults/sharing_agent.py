"""Eight threads predict, rank and explain while one adds and removes actions: none names one that was not there."""

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np

from tests.faults.sharing import DIM, FEW, ROWS, History, change, run
from wolpertinger import ActionTable, Wolpertinger

STATE = 4
AGENTS: dict[str, dict[str, Any]] = {
    "the class's defaults": {},
    "nearest": {"candidates": "nearest", "k": 20},
    "both": {"candidates": "both", "critic": "two-tower", "k": 20},
}


class Draws(gym.Env):
    """States and rewards at random: an agent needs an environment to be made."""

    observation_space = gym.spaces.Box(-1, 1, (STATE,), np.float32)
    action_space = gym.spaces.Discrete(ROWS)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, STATE).astype(np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.reset()[0], self.np_random.random(), self.np_random.random() < 0.1, False, {}


def predict_while_writing(kind: str, operations: int, seed: int = 0) -> dict[str, Any]:
    """So many predictions, lists and explanations in all, by eight threads, of one kind of agent."""
    vectors = np.random.default_rng(seed).normal(size=(ROWS, DIM)).astype(np.float32)
    table, history = ActionTable(vectors), History()
    history.add(vectors)
    agent = Wolpertinger("MlpPolicy", Draws(), actions=table, seed=seed, **AGENTS[kind]).learn(500)

    def read(own: np.random.Generator) -> tuple[np.ndarray, int, int]:
        obs, first = own.uniform(-1, 1, (int(own.integers(1, 4)), STATE)).astype(np.float32), history.done
        ways = (
            lambda: agent.predict(obs)[0],
            lambda: agent.rank(obs, 5).actions,
            lambda: agent.explain(obs[0]).actions,
        )
        return np.asarray(ways[own.integers(3)]()), first, history.begun

    recent: deque[np.ndarray] = deque(maxlen=FEW)
    answers, failures = run(read, lambda own: change(table, history, recent, own), operations, seed)
    frozen, wrong = history.freeze(), list(failures)
    for found, first, last in answers:
        rows = found.reshape(-1, 1) if kind == "both" else found.reshape(len(found) if found.ndim > 1 else 1, -1)
        for row in rows:  # what a source finds is of one moment, a batch of predictions too; two sources have two
            if not frozen.moments(np.unique(row), first, last):
                wrong.append(f"{row.tolist()} were never there together between changes {first} and {last}")
    right = len(answers) + len(failures) - len(wrong)
    return {"changes": history.done, "answers": len(answers), "right": right, "failures": wrong[:20]}
