"""Keys that are too many for a product with all of them are searched by an index."""

import copy
from time import perf_counter

import numpy as np

from tests.agent.envs import TargetEnv
from tests.policy.two_towers import VECTORS, all_values, fresh, states, tower_agent
from wolpertinger import ActionTable, States
from wolpertinger.policy import critic_search as module


def test_many_keys_are_searched_by_an_index(monkeypatch):
    monkeypatch.setattr(module, "INDEXED_FROM", 1_500)
    monkeypatch.setattr(module, "SCANNED_QUERIES", 0)
    actions = ActionTable(np.random.default_rng(0).normal(size=(2_000, 3)))
    agent = fresh(tower_agent(TargetEnv(actions, length=5), k=3))
    obs = states(200)
    found, expected = agent.explain(obs.numpy()).actions, all_values(agent, obs).topk(3, dim=1).indices.numpy()
    shared = [len(set(row) & set(other)) for row, other in zip(found, expected, strict=True)]
    assert np.mean(shared) >= 3 * (module.RECALL - 0.05)
    source = agent.policy.predictor.source
    assert source.keys().index.tuning_seconds > 0
    assert source.stats()["seconds"] == source.seconds >= source.keys().index.tuning_seconds
    spent = source.seconds
    actions.remove(np.arange(1_000))  # too few for an index
    found = agent.explain(obs.numpy()).actions
    assert found.min() >= 1_000
    np.testing.assert_array_equal(found, 1_000 + all_values(agent, obs)[:, 1_000:].topk(3, dim=1).indices.numpy())
    assert source.seconds > spent


def test_an_index_over_new_keys_is_judged_by_the_new_critics_queries(monkeypatch):
    monkeypatch.setattr(module, "INDEXED_FROM", 1_500)
    monkeypatch.setattr(module, "SCANNED_QUERIES", 0)
    actions = ActionTable(np.random.default_rng(0).normal(size=(2_000, 3)))
    start = perf_counter()
    agent = fresh(tower_agent(TargetEnv(actions, length=5), k=3))
    obs, source = states(module.RECENT_STATES), agent.policy.behaviour.source
    source.find(States(obs), 3)
    before = source.keys().index
    for parameter in agent.critic.parameters():
        parameter.data.mul_(1.5)
    source.critic_updated()
    source.expire()
    source._refresh_if_due()
    source.best(source.snapshot.queries(obs[:1]), 3)
    assert source.keys().index is not before
    expected = source.keys().index._lengthen(source.snapshot.queries(obs).detach().numpy())
    np.testing.assert_array_equal(source.keys().index._index._queries.last[: len(obs)], expected)
    assert before.tuning_seconds <= source.keys().index.tuning_seconds <= source.seconds < perf_counter() - start


def test_few_queries_of_the_same_keys_are_scans(monkeypatch):
    monkeypatch.setattr(module, "INDEXED_FROM", 1_500)
    monkeypatch.setattr(module, "SCANNED_QUERIES", 1_000)
    actions = ActionTable(np.random.default_rng(0).normal(size=(2_000, 3)))
    agent = fresh(tower_agent(TargetEnv(actions, length=5), k=3))
    source, obs = agent.policy.predictor.source, states(30)
    found = agent.explain(obs.numpy()).actions
    assert source.keys().index is None
    np.testing.assert_array_equal(found, all_values(agent, obs).topk(3, dim=1).indices.numpy())
    agent.explain(states(1_000).numpy())
    assert source.keys().index is not None


def test_a_copy_searches_its_own_table(monkeypatch):
    monkeypatch.setattr(module, "INDEXED_FROM", 200)
    monkeypatch.setattr(module, "SCANNED_QUERIES", 0)
    agent = fresh(tower_agent(k=1))
    obs = states(50).numpy()
    agent.actions.add(VECTORS[:1] + 1)
    chosen = agent.predict(obs)[0]
    agent.actions.remove(np.unique(chosen)[:1])
    twin = copy.deepcopy(agent.policy)
    assert not np.isin(twin.predict(obs)[0], np.unique(chosen)[:1]).any()
