import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from tests.agent.envs import DictEnv, ImageEnv, RoomEnv, TargetEnv, small_agent
from wolpertinger import Exploration, Wolpertinger
from wolpertinger.agent import standardization
from wolpertinger.agent.standardization import discounted_returns


class Units(gym.Wrapper):
    """The same environment with its numbers in other units."""

    def __init__(self, env, reward=1.0, obs=1.0):
        super().__init__(env)
        self.reward, self.obs = reward, obs
        low, high = env.observation_space.low, env.observation_space.high
        self.observation_space = spaces.Box(low * obs, high * obs)

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        return obs * self.obs, info

    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        return obs * self.obs, reward * self.reward, *rest


class Rare(TargetEnv):
    """No reward but 1 at one step."""

    at, seen = 60, 0

    def step(self, action):
        obs, _, *rest = super().step(action)
        self.seen += 1
        return obs, float(self.seen == self.at), *rest


def fill(buffer, rewards, dones):
    for reward, done in zip(rewards, dones, strict=True):
        n = len(reward)
        buffer.add(np.zeros((n, 1)), np.zeros((n, 1)), np.zeros((n, 1)), reward, done, [{}] * n)


@pytest.mark.parametrize("steps", [30, 50])  # the buffer holds 40
def test_returns_equal_a_loop_over_every_transition(steps):
    rng = np.random.default_rng(0)
    rewards, dones = rng.normal(size=(steps, 2)), rng.random((steps, 2)) < 0.2
    buffer = ReplayBuffer(80, spaces.Box(-1, 1, (1,)), spaces.Discrete(3), n_envs=2)
    fill(buffer, rewards, dones)
    found = discounted_returns(buffer, 0.9, None)
    rewards, dones = rewards[-40:], dones[-40:]
    assert found.shape == rewards.shape
    for env in range(2):
        for start in range(len(rewards)):
            expected, discount = 0.0, 1.0
            for step in range(start, len(rewards)):
                expected, discount = expected + discount * rewards[step, env], 0.9 * discount
                if dones[step, env]:
                    break
            assert found[start, env] == pytest.approx(expected, abs=1e-5)


def test_only_recent_steps_count(monkeypatch):
    monkeypatch.setattr(standardization, "RECENT", 5)
    buffer = ReplayBuffer(20, spaces.Box(-1, 1, (1,)), spaces.Discrete(3))
    fill(buffer, np.arange(30.0)[:, None], np.ones((30, 1), bool))
    assert discounted_returns(buffer, 0.9, None).ravel().tolist() == [25, 26, 27, 28, 29]


@pytest.mark.parametrize(
    "settings",
    [{}, {"candidates": "critic", "critic": "two-tower", "k": 1}, {"learner": {"kind": "td3"}, "k": 1}],
    ids=["nearest", "critic", "td3"],
)
def test_units_do_not_matter(settings):
    """Powers of two are exact in floating point, so every weight must come out the same to the bit."""

    def trained(**units):
        # Random actions: the first one after the warm-up comes before the first training, which finds the units.
        explore = Exploration(epsilon=1.0)
        agent = small_agent(Units(TargetEnv(length=5), **units), standardize=True, exploration=explore, **settings)
        agent.learn(120)
        return agent

    ours, theirs = trained(), trained(reward=1024.0, obs=64.0)
    for mine, other in zip(ours.policy.parameters(), theirs.policy.parameters(), strict=True):
        assert torch.equal(mine, other)
    obs = np.random.default_rng(0).uniform(-1, 1, (16, 2)).astype(np.float32)
    assert np.array_equal(ours.explain(obs).q * 1024, theirs.explain(obs * 64).q)


def test_all_four_networks_share_their_units():
    agent = small_agent(standardize=True)
    assert not agent.critic.values.is_fitted
    agent.learn(40)
    policy = agent.policy
    obs = agent.replay_buffer.observations[:21, 0]
    for network in (policy.actor, policy.actor_target, policy.critic, policy.critic_target):
        assert network.states.is_fitted
        assert network.states.mean.numpy() == pytest.approx(obs.mean(axis=0), abs=0.3)
    assert policy.critic.values.spread == policy.critic_target.values.spread != 1
    assert policy.critic.values.mean < 0  # rewards are minus a distance


def test_values_get_their_unit_once_rewards_differ():
    agent = small_agent(Rare(length=5), standardize=True)
    agent.learn(40)
    assert agent.critic.states.is_fitted
    assert not agent.critic.values.is_fitted
    agent.learn(40, reset_num_timesteps=False)
    assert agent.critic.values.is_fitted


def test_units_stay_and_are_saved(tmp_path):
    agent = small_agent(standardize=True)
    agent.learn(40)
    before = agent.critic.values.mean.clone()
    agent.learn(40, reset_num_timesteps=False)
    assert torch.equal(agent.critic.values.mean, before)
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", env=TargetEnv(length=5))
    obs = np.random.default_rng(0).uniform(-1, 1, (16, 2)).astype(np.float32)
    assert np.array_equal(loaded.explain(obs).q, agent.explain(obs).q)
    assert loaded.critic.values.is_fitted


@pytest.mark.parametrize(
    ("env", "policy"), [(DictEnv, "MultiInputPolicy"), (ImageEnv, "CnnPolicy"), (RoomEnv, "MlpPolicy")]
)
def test_states_that_are_no_plain_numbers_are_left_as_they_are(env, policy):
    agent = small_agent(env(length=5), policy, standardize=True, policy_kwargs={})
    agent.learn(30)
    assert not agent.critic.states.is_fitted
    assert agent.critic.values.is_fitted


def test_with_normalised_rewards_values_go_by_those():
    env = VecNormalize(DummyVecEnv([lambda: Units(TargetEnv(length=5), reward=1e6)]), norm_obs=False)
    agent = small_agent(env, standardize=True)
    agent.learn(40)
    assert agent.critic.values.spread < 100


def test_the_paper_has_plain_units_and_anyone_may():
    env = TargetEnv(length=5)
    assert Wolpertinger("MlpPolicy", env).standardize is True
    assert Wolpertinger("MlpPolicy", env, preset="paper").standardize is False
    agent = small_agent(env, standardize=False)
    agent.learn(40)
    assert not agent.critic.states.is_fitted


def test_however_short_the_warm_up_units_are_of_several_transitions():
    agent = small_agent(standardize=True, learning_starts=0)
    agent.learn(9)
    assert (agent._n_updates, bool(agent.critic.states.is_fitted)) == (0, False)
    agent.learn(10, reset_num_timesteps=False)
    assert agent._n_updates == 10
    assert agent.critic.states.is_fitted
    assert (agent.critic.states.spread != 1).all()


def test_while_rewards_are_all_equal_training_costs_no_more(monkeypatch):
    agent = small_agent(Rare(length=5), standardize=True, candidates="critic", critic="two-tower", k=1)
    agent.learn(30)
    called = []
    monkeypatch.setattr(standardization, "discounted_returns", lambda *args: called.append(args))
    monkeypatch.setattr(type(agent.policy.behaviour.source), "expire", lambda self: called.append(self))
    agent.train(1, 8)
    assert not called


def test_an_agent_that_learned_in_one_kind_of_units_is_not_loaded_into_another(tmp_path):
    agent = small_agent(standardize=False)
    agent.learn(40)
    agent.save(tmp_path / "agent.zip")
    with pytest.raises(ValueError, match="standardize=True: the agent learned with False"):
        Wolpertinger.load(tmp_path / "agent.zip", standardize=True)


class Constant(TargetEnv):
    """A reward of 1 a step, as a cart-pole's: returns differ by how much of the episode is left."""

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, 1.0, *rest


def test_where_rewards_are_all_the_same_returns_have_a_unit():
    agent = small_agent(Constant(length=5), standardize=True)
    agent.learn(40)
    assert agent.critic.values.is_fitted
    assert agent.critic.values.mean > 1
