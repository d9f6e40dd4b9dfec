"""The names a user may rely on, and the code of the design's contract, as it stands there but for fewer steps."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import wolpertinger
from wolpertinger import ActionProduct, ActionTable, Wolpertinger


def test_the_public_names_are_these():
    assert wolpertinger.__all__ == [
        "DDPG",
        "MLP",
        "TD3",
        "ActionIds",
        "ActionProduct",
        "ActionSet",
        "ActionTable",
        "Allowed",
        "BadTransitionError",
        "BestByCritic",
        "BestByFactor",
        "CandidateSource",
        "Candidates",
        "CheckpointError",
        "Columns",
        "Everything",
        "Explanation",
        "Exploration",
        "Factored",
        "Levels",
        "LogError",
        "Nearest",
        "NoAllowedActionError",
        "OfferedActions",
        "Offline",
        "PerItem",
        "RankedActions",
        "SaveError",
        "Slate",
        "SlotBySlot",
        "States",
        "TooManyActionsError",
        "TopItems",
        "Transitions",
        "TwoTower",
        "Union",
        "UnknownActionError",
        "Wolpertinger",
        "WorseThanRandom",
        "discretize",
        "envs",
    ]
    assert all(hasattr(wolpertinger, name) for name in wolpertinger.__all__)


@pytest.mark.filterwarnings("ignore:rich is experimental")
def test_a_shipped_environment_from_learning_to_loading(tmp_path):
    env = gym.make("wolpertinger/Recommender-v0", items=49)
    agent = Wolpertinger("MlpPolicy", env, k=0.05, seed=0, learning_starts=100)
    agent.learn(200, progress_bar=True)
    obs, _ = env.reset(seed=1)
    action, _ = agent.predict(obs, deterministic=True)
    why = agent.explain(obs)
    assert action == why.chosen
    assert agent.k == len(why.actions) == len(why.distances) == len(why.q) == 2
    assert why.proto.shape == (20,)
    agent.save(tmp_path / "agent.zip")
    agent = Wolpertinger.load(tmp_path / "agent.zip", env=env)
    assert agent.predict(obs, deterministic=True)[0] == action


class Mine(gym.Env):
    """A user's own environment: it knows nothing of wolpertinger."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        assert action in self.action_space
        ended = bool(self.np_random.random() < 0.2)
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), 1.0, ended, False, {}


def test_a_users_own_vectors():
    env, vectors = Mine(spaces.Discrete(500)), np.random.default_rng(0).normal(size=(500, 10))
    agent = Wolpertinger("MlpPolicy", env, actions=ActionTable(vectors, recall=0.99), k=100, learning_starts=50)
    agent.learn(100)
    assert agent.explain(np.zeros(3, np.float32)).actions.shape == (100,)


def test_a_users_own_levels():
    for space in (spaces.Discrete(21**6), spaces.MultiDiscrete([21] * 6)):
        env = Mine(space)
        actions = ActionProduct([np.linspace(-1, 1, 21)] * 6)
        agent = Wolpertinger("MlpPolicy", env, actions=actions, k=64, learning_starts=30)
        agent.learn(50)
        assert agent.predict(np.zeros(3, np.float32))[0] in space
