import shutil

import gymnasium as gym
import numpy as np
import pytest

from tests.serve.started import started
from wolpertinger import ActionTable, Wolpertinger


class Aim(gym.Env):
    """One step: the reward is how near the action's vector is to the observation."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, vectors):
        self.vectors, self.action_space = vectors, gym.spaces.Discrete(len(vectors))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.state, {}

    def step(self, action):
        return self.state, -float(np.linalg.norm(self.vectors[action] - self.state)), True, False, {}


def make_agent(seed=0, n=200):
    vectors = np.random.default_rng(0).uniform(-1, 1, (n, 3)).astype(np.float32)
    actions = ActionTable(vectors)
    agent = Wolpertinger("MlpPolicy", Aim(vectors), actions, k=8, seed=seed, preset="paper", learning_starts=50)
    return agent.learn(100)


@pytest.fixture(scope="session")
def agents(tmp_path_factory):
    """Files of two agents over the same actions."""
    folder = tmp_path_factory.mktemp("agents")
    for seed, name in enumerate(("first", "second")):
        make_agent(seed).save(folder / f"{name}.zip")
    return folder


@pytest.fixture(scope="session")
def agent(agents):
    return Wolpertinger.load(agents / "first.zip")


@pytest.fixture
def agent_file(agents, tmp_path):
    """A copy that a test may change the actions of."""
    return shutil.copy(agents / "first.zip", tmp_path / "agent.zip")


@pytest.fixture(scope="session")
def client(agents, tmp_path_factory):
    """Of a service that no test changes."""
    path = shutil.copy(agents / "first.zip", tmp_path_factory.mktemp("served") / "agent.zip")
    with started(path) as client:
        yield client
