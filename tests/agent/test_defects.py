"""The eight defects seen in public implementations, each with a test named after it."""

import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from wolpertinger import ActionProduct, ActionTable, Exploration, States

from .envs import TargetEnv, best_of, scramble_all, small_agent
from .test_algorithm import expected_target, filled_agent, networks_of, train_once


def scrambled(env, **kwargs):
    agent = small_agent(env, **kwargs)
    scramble_all(agent)
    return agent


def test_defect_1_candidates_paired_with_the_wrong_states():
    agent = scrambled(TargetEnv(points_per_axis=9), k=6)
    obs = torch.rand(11, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    proto = agent.actor(obs)
    ranking = agent.policy.behaviour.rank(States(obs, proto), agent.critic)
    loops = [
        best_of(agent.critic, state, agent.actions, candidates)
        for state, candidates in zip(obs, agent.actions.nearest(proto.detach().numpy(), 6), strict=True)
    ]
    np.testing.assert_array_equal(ranking.actions[:, 0], [action for action, _ in loops])
    np.testing.assert_allclose(ranking.values[:, 0], [q for _, q in loops], rtol=1e-4, atol=1e-6)


def test_defect_2_the_argmax_taken_for_an_action_id():
    agent = scrambled(TargetEnv(points_per_axis=9), k=6)
    corner = torch.ones(5, 2)  # its neighbours have the highest ids
    chosen = agent.policy.behaviour.rank(States(torch.rand(5, 2), corner), agent.critic).actions[:, 0].numpy()
    assert (chosen >= agent.k).all()
    assert all(action in agent.actions.nearest(corner[:1].numpy(), 6) for action in chosen)


@pytest.mark.parametrize("wrong", ["f alone", "online critic", "online actor", "s instead of s'"])
def test_defect_3_the_target_from_the_wrong_action_network_or_state(monkeypatch, wrong):
    agent = filled_agent()
    before = networks_of(agent)
    seen = train_once(agent, monkeypatch)
    agent.actor_target, agent.critic_target = before["actor_target"], before["critic_target"]
    dones = seen["batch"].dones[:, 0].numpy()
    swapped = {
        "f alone": {"k": 1},
        "online critic": {"critic": before["critic"]},
        "online actor": {"actor": before["actor"]},
        "s instead of s'": {"states": seen["batch"].observations},
    }[wrong]
    np.testing.assert_allclose(seen["target"], expected_target(agent, seen["batch"], dones), rtol=1e-4, atol=1e-4)
    assert not np.allclose(seen["target"], expected_target(agent, seen["batch"], dones, **swapped), atol=0.01)


def test_defect_4_noise_after_the_choice_or_none_at_all():
    env = TargetEnv(ActionTable(np.random.default_rng(0).uniform(-1, 1, (50, 2))), length=5)
    agent = scrambled(env, k=3, learning_starts=0, gradient_steps=0, exploration=Exploration(sigma=0.5))
    agent.learn(60)
    assert all(isinstance(int(action), int) and action in env.action_space for action in env.executed)
    observed = agent.replay_buffer.observations[:60, 0]
    without_noise, _ = agent.predict(observed, deterministic=True)
    assert 0.2 < (np.array(env.executed) != without_noise).mean() < 1
    np.testing.assert_array_equal(agent.replay_buffer.actions[:60, 0, 0], env.executed)


def test_defect_5_ranked_on_raw_vectors_but_trained_on_scaled_ones(monkeypatch):
    vectors = np.random.default_rng(0).uniform([100, -8], [300, -2], (40, 2)).astype(np.float32)
    agent = small_agent(TargetEnv(ActionTable(vectors), length=5), k=4)
    fed = []
    weight = agent.critic.q_networks[0].action.weight
    linear, addmm = F.linear, torch.addmm  # all that the first layer is made of, with states that do not interact

    def see(inputs, used):
        if any(torch.equal(used, form) for form in (weight, weight.t()) if used.shape == form.shape):
            fed.append(inputs.reshape(-1, 2))

    monkeypatch.setattr(F, "linear", lambda x, w, *bias: see(x, w) or linear(x, w, *bias))
    monkeypatch.setattr(torch, "addmm", lambda c, x, w, **out: see(x, w) or addmm(c, x, w, **out))
    agent.learn(50)  # acts, ranks and trains
    middle, radius = (vectors.max(0) + vectors.min(0)) / 2, (vectors.max(0) - vectors.min(0)) / 2
    spread = agent.critic.scale.spread.item()
    scaled = (vectors - middle) / radius / spread
    ranked = [rows for rows in fed if len(rows) == 4]  # the candidates of one state
    trained = [rows for rows in fed if len(rows) == 16]  # executed actions, then proto-actions
    assert ranked
    assert trained
    for rows in [*ranked, *trained[::2]]:
        nearest = np.abs(rows.detach().numpy()[:, None] - scaled).max(axis=2).min(axis=1)
        assert nearest.max() < 1e-4
    assert all(rows.abs().max() <= 1 / spread + 1e-4 for rows in fed)


def test_defect_6_time_outs_taken_for_terminal_states(monkeypatch):
    env = TimeLimit(TargetEnv(length=None), max_episode_steps=3)
    agent = scrambled(env, gamma=0.9, learning_starts=1_000)
    agent.learn(30)
    buffer = agent.replay_buffer
    assert buffer.dones[:30].sum() == buffer.timeouts[:30].sum() == 10
    before = networks_of(agent)
    seen = train_once(agent, monkeypatch)
    agent.actor_target, agent.critic_target = before["actor_target"], before["critic_target"]
    timed_out = buffer.timeouts[seen["indices"], 0] == 1
    expected = expected_target(agent, seen["batch"], np.zeros(len(timed_out)))
    np.testing.assert_allclose(seen["target"], expected, rtol=1e-4, atol=1e-4)
    assert np.abs(seen["target"].numpy() - seen["batch"].rewards[:, 0].numpy())[timed_out].max() > 0.01


def test_defect_6_the_last_observation_of_an_episode_is_not_the_first_of_the_next():
    env = TimeLimit(TargetEnv(length=None), max_episode_steps=3)
    buffer = small_agent(env, learning_starts=1_000).learn(30).replay_buffer
    ended = np.flatnonzero(buffer.timeouts[:29, 0])
    assert (buffer.next_observations[ended] != buffer.observations[ended + 1]).any(axis=(1, 2)).all()


def test_defect_7_one_fixed_share_of_a():
    table = ActionTable(np.random.default_rng(0).uniform(-1, 1, (200_000, 2)).astype(np.float32))
    env = TargetEnv(table)
    agent = small_agent(env, k=None)
    assert agent.k == 64
    agent.k = 3
    assert agent.explain(np.zeros(2, np.float32)).actions.shape == (3,)
    agent.k = 0.001
    assert agent.k == 200


def test_defect_7_the_work_of_a_step_follows_k_and_not_the_size_of_a():
    agent = small_agent(TargetEnv(ActionProduct([[0.0, 1.0]] * 100), length=5), k=64)
    assert agent.actions.n == 2**100
    start = time.perf_counter()
    chosen, _ = agent.predict(np.zeros((16, 100), np.float32))
    assert time.perf_counter() - start < 5
    assert chosen.shape == (16, 100)
    assert agent.replay_buffer.actions.shape[-1] == 100  # digits, whatever |A|


def test_defect_8_action_sets_the_library_did_not_think_of():
    """Irregular embeddings of the user's own, seven numbers each, for ids that mean nothing by themselves."""
    embeddings = np.random.default_rng(0).normal(size=(30, 7)) ** 3
    env = TargetEnv(ActionTable(embeddings), length=5, offer=False)
    agent = small_agent(env, actions=ActionTable(embeddings), k=5).learn(40)
    why = agent.explain(env.reset(seed=0)[0])
    assert why.proto.shape == (7,)
    unit = agent.actor.unit(torch.zeros(1, 7))[0]
    assert len(set(unit.tolist())) == 7  # every dimension has an output of its own
    np.testing.assert_allclose(why.distances, np.linalg.norm(embeddings[why.actions] - why.proto, axis=1), rtol=1e-4)
    assert agent.action_space == spaces.Discrete(30)
