"""The obvious re-ranking gives what ours gives: only the time may differ."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from benchmarks.speed import obvious
from benchmarks.speed.flops import Networks
from wolpertinger import MLP, Wolpertinger


@pytest.fixture(scope="module")
def env():
    return gym.make("wolpertinger/Recommender-v0", items=49)


def make_agent(env, policy="MlpPolicy", critic="mlp", **policy_kwargs):
    settings = {"learning_starts": 8, "batch_size": 8, "policy_kwargs": {"net_arch": [32, 24], **policy_kwargs}}
    agent = Wolpertinger(policy, env, k=20, seed=0, critic=critic, candidates="nearest", **settings)
    return agent.learn(12)


@pytest.mark.parametrize("n_critics", [1, 2])
def test_it_gives_the_same_values(env, n_critics):
    agent = make_agent(env, n_critics=n_critics)
    obs = agent.replay_buffer.sample(8).observations
    vectors = torch.as_tensor(agent.actions.embed(np.arange(40).reshape(8, 5)))
    with torch.no_grad():
        expected = agent.critic(obs, vectors).amin(dim=0)
    torch.testing.assert_close(obvious.rank(agent.critic, obs, vectors), expected)


def test_its_policy_trains_and_picks_the_same_actions(env):
    ours, theirs = make_agent(env), make_agent(env, obvious.ObviousPolicy)
    obs = ours.actions.vectors[:10]
    np.testing.assert_array_equal(ours.predict(obs)[0], theirs.predict(obs)[0])
    assert {"lookup", "rerank", "update"} <= set(theirs.policy.timer.seconds)


def test_products_of_state_and_action_are_refused(env):
    agent = make_agent(env, critic=MLP(interaction=True))
    with pytest.raises(ValueError, match="interaction=True"):
        obvious.rank(agent.critic, torch.zeros(1, 20), torch.zeros(1, 3, 20))


def test_all_plans_do_not_fit():
    networks = Networks(features=363, dim=40, actor=(400, 300), critic=(400, 300))
    assert (
        obvious.estimate_bytes(networks, 64, 5_242) < obvious.MOST_BYTES < obvious.estimate_bytes(networks, 64, 2**20)
    )
