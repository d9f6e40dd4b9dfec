"""What the agent does where nothing is said."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

from tests.agent.envs import DictEnv, TargetEnv
from wolpertinger import (
    DDPG,
    MLP,
    TD3,
    ActionProduct,
    ActionTable,
    BestByCritic,
    BestByFactor,
    Exploration,
    Factored,
    Nearest,
    TwoTower,
    Wolpertinger,
)
from wolpertinger.agent.defaults import Defaults
from wolpertinger.networks.layers import UnitFeatures

VECTORS = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
CONTROLS = ActionProduct([np.linspace(-1, 1, 5)] * 3)
PLANS = ActionProduct([np.eye(2)] * 5)


def agent_over(actions, **settings):
    return Wolpertinger("MlpPolicy", TargetEnv(actions, length=5), seed=0, buffer_size=1_000, **settings)


@pytest.mark.parametrize("actions", [ActionTable(VECTORS), PLANS])
def test_what_can_be_listed_is_searched_by_two_towers(actions):
    given = agent_over(actions)._arguments
    assert isinstance(given["critic"], TwoTower)
    assert given["candidates"] == BestByCritic()
    assert given["exploration"].epsilon > 0


def has_unit_features(network):
    return any(isinstance(layer, UnitFeatures) for layer in network.modules())


@pytest.mark.parametrize("given", [{}, {"candidates": "factors"}, {"critic": "factored"}, {"learner": DDPG()}])
def test_levels_of_controls_are_searched_factor_by_factor(given):
    agent = agent_over(CONTROLS, **given)
    assert (agent._arguments["critic"], agent._arguments["candidates"]) == (Factored(), BestByFactor())
    assert (len(agent.critic.networks), agent.n_steps) == (2, 3)
    assert has_unit_features(agent.critic)  # without it values of some controls diverge


@pytest.mark.parametrize(
    "given", [{"learner": "td3"}, {"candidates": "nearest"}, {"critic": "mlp"}, {"exploration": Exploration(sigma=0.2)}]
)
def test_controls_get_an_actor_where_it_is_asked_for(given):
    agent = agent_over(CONTROLS, **given)
    assert agent._arguments["candidates"] == Nearest()
    assert isinstance(agent._arguments["learner"], TD3)
    assert len(agent.critic.networks) == 2
    for network in (agent.actor, agent.critic):  # without it the actor can run into a corner and stay
        assert has_unit_features(network)


def test_what_is_learned_from_a_log_of_controls_keeps_near_it():
    assert agent_over(CONTROLS, learner="offline")._arguments["candidates"] == Nearest()


def test_levels_without_an_action_set_are_searched_factor_by_factor():
    class Orders(Echo):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.MultiDiscrete([10] * 6)

    assert Wolpertinger("MlpPolicy", Orders(), buffer_size=100)._arguments["critic"] == Factored()


def test_plans_that_cannot_be_searched_get_the_papers_form():
    given = agent_over(ActionProduct([np.eye(2)] * 80))._arguments
    assert (given["critic"], given["candidates"], given["k"]) == (MLP(interaction=True), Nearest(), 64)


@pytest.mark.parametrize("given", [{"candidates": "nearest"}, {"critic": "mlp"}])
def test_what_is_given_decides_about_the_rest(given):
    agent = agent_over(ActionTable(VECTORS), **given)
    assert agent.policy.behaviour.source.needs_actor
    assert isinstance(agent._arguments["critic"], MLP)
    assert agent.exploration.noise == "gaussian"


class Echo(gym.Env):
    """Earns 1 whenever the action is the state's number: nothing but the number tells actions apart."""

    def __init__(self, n=20):
        self.n, self.state, self.steps = n, 0, 0
        self.action_space = self.observation_space = spaces.Discrete(n)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = int(self.np_random.integers(self.n)), 0
        return self.state, {}

    def step(self, action):
        reward, self.steps = float(action == self.state), self.steps + 1
        self.state = int(self.np_random.integers(self.n))
        return self.state, reward, False, self.steps == 10, {}


def test_actions_without_vectors_are_learned_one_by_one(tmp_path, capsys):
    agent = Wolpertinger("MlpPolicy", Echo(), learning_starts=600, batch_size=128, seed=0, verbose=1).learn(1_500)
    states = np.arange(20)
    assert (agent.predict(states)[0] == states).mean() >= 0.8  # at random: 0.05
    assert "20 actions without vectors: two towers search all of them" in capsys.readouterr().out
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", env=Echo())
    assert (loaded.actions.kind, loaded.actions.n) == ("ids", 20)
    np.testing.assert_array_equal(loaded.predict(states)[0], agent.predict(states)[0])
    why = loaded.explain(3)
    assert why.chosen == loaded.predict(3)[0]
    loaded.learn(10)


def test_the_paper_is_a_preset():
    agent = agent_over(ActionTable(VECTORS), preset="paper")
    given = agent._arguments
    assert (given["critic"], given["candidates"], given["learner"], given["k"]) == (MLP(), Nearest(), DDPG(), 64)
    assert (agent.tau, agent.gamma, agent.batch_size, agent.actor_learning_rate) == (1e-3, 0.99, 64, 1e-4)
    with pytest.raises(ValueError, match="preset='plain': give one of 'auto', 'paper'"):
        agent_over(ActionTable(VECTORS), preset="plain")


@pytest.mark.parametrize(
    ("transitions", "n_envs", "most", "expected"),
    [
        (500, 1, 16, (1, 1)),
        (5_000, 1, 16, (4, 1)),
        (10**6, 1, 16, (16, 1)),
        (10**6, 1, 4, (4, 1)),
        (10**6, 4, 16, (4, 1)),
        (10**6, 64, 16, (1, 4)),
        (10**6, 64, 4, (1, 16)),
    ],
)
def test_a_run_is_worth_so_many_updates(transitions, n_envs, most, expected):
    defaults = Defaults({}, 1_250, {}, "", most_transitions=most)
    assert defaults.update_ratio(transitions, n_envs) == expected


def test_short_runs_update_after_every_step_unless_told_otherwise(capsys):
    agent = agent_over(ActionTable(VECTORS), learning_starts=10, verbose=1).learn(30)
    assert agent._n_updates == 20
    assert "200 actions in 3 numbers: two towers search all of them; 1 environment" in capsys.readouterr().out
    assert agent_over(ActionTable(VECTORS), learning_starts=10, train_freq=5).learn(30)._n_updates == 4


def test_a_loaded_agent_has_the_same_parts(tmp_path):
    agent = agent_over(ActionTable(VECTORS), learning_starts=10).learn(20)
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert loaded._arguments == agent._arguments
    obs = np.zeros((4, 3), np.float32)
    np.testing.assert_array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])


def test_all_actions_as_candidates_and_no_random_ones_is_warned_of():
    with pytest.warns(UserWarning, match="nothing is explored"):
        agent_over(ActionTable(VECTORS), k=1.0, candidates="nearest", exploration={"kind": "exploration"})


FEW = ActionTable(VECTORS[:64])


def test_few_actions_get_more_updates_and_a_longer_horizon():
    few, many = agent_over(FEW), agent_over(ActionTable(VECTORS[:65]))
    assert (few.n_steps, few.gamma, few.tau, few.defaults.updates) == (3, 0.98, 0.005, 5_000)
    assert (many.n_steps, many.gamma, many.tau, many.defaults.updates) == (1, 0.9, 0.01, 2_500)


@pytest.mark.parametrize("settings", [{"replay_buffer_class": ReplayBuffer}, {"optimize_memory_usage": True}])
def test_where_a_buffer_knows_no_longer_returns_there_are_none(settings):
    if settings.get("optimize_memory_usage"):
        settings = {**settings, "replay_buffer_kwargs": {"handle_timeout_termination": False}}
    assert agent_over(FEW, **settings).n_steps == 1


def test_nor_for_dict_observations():
    env = DictEnv(actions=FEW, length=5)
    agent = Wolpertinger("MultiInputPolicy", env, seed=0, buffer_size=1_000, learning_starts=10)
    assert agent.n_steps == 1
    agent.learn(20)


def test_n_steps_can_be_given():
    assert agent_over(FEW, n_steps=1).n_steps == 1
    assert agent_over(ActionTable(VECTORS), n_steps=2).n_steps == 2
