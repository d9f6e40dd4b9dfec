"""What an explanation says, beside what `predict` does."""

import numpy as np
import pytest
import torch

from wolpertinger import ActionProduct, ActionTable

from .envs import TargetEnv, scramble_all, small_agent, value

VECTORS = np.random.default_rng(5).uniform([-2, 0, 10], [2, 1, 30], size=(120, 3)).astype(np.float32)
LEVELS = [np.linspace(-2, 2, 6), np.linspace(0, 1, 5), np.linspace(10, 30, 4)]
SETS = {
    **{f"table {index}": ActionTable(VECTORS, index=index) for index in ("exact", "Flat", "IVF8,Flat", "HNSW16")},
    **{f"product {space}": ActionProduct(LEVELS, space=space) for space in ("discrete", "multidiscrete")},
}
BATCH = 7


@pytest.fixture(params=SETS)
def actions(request):
    return SETS[request.param]


@pytest.fixture
def agent(actions):
    agent = small_agent(TargetEnv(actions), k=9, policy_kwargs={"net_arch": [16, 16], "n_critics": 2})
    scramble_all(agent)
    return agent


@pytest.mark.parametrize("at_once", [5, 20, 100_000])
def test_explain_says_what_predict_saw(agent, actions, at_once, monkeypatch):
    monkeypatch.setattr("wolpertinger.policy.policy.CANDIDATES_AT_ONCE", at_once)
    obs = torch.as_tensor(np.random.default_rng(1).uniform(-1, 1, (BATCH, 3)).astype(np.float32))
    why = agent.explain(obs.numpy())
    chosen, _ = agent.predict(obs.numpy(), deterministic=True)
    np.testing.assert_array_equal(why.chosen, chosen)
    assert (why.proto.shape, why.distances.shape, why.q.shape) == ((BATCH, 3), (BATCH, 9), (BATCH, 9))
    np.testing.assert_allclose(why.proto, agent.actor(obs).detach().numpy(), rtol=1e-6)
    np.testing.assert_array_equal(why.actions, actions.nearest(why.proto, 9))
    for i in range(BATCH):
        np.testing.assert_array_equal(why.chosen[i], why.actions[i, why.q[i].argmax()])
        vectors = actions.embed(why.actions[i])
        np.testing.assert_allclose(why.distances[i], np.linalg.norm(vectors - why.proto[i], axis=1), rtol=1e-5)
        np.testing.assert_allclose(why.q[i], [value(agent.critic, obs[i], v) for v in vectors], rtol=1e-3, atol=1e-5)
    assert (np.diff(why.distances, axis=1) >= -1e-5).all()
    assert (why.sources == "nearest").all()

    one = agent.explain(obs[3].numpy())
    assert (one.proto.shape, one.distances.shape, one.q.shape, one.sources.shape) == ((3,), (9,), (9,), (9,))
    np.testing.assert_array_equal(one.actions, why.actions[3])
    np.testing.assert_array_equal(one.chosen, why.chosen[3])
    np.testing.assert_allclose(one.q, why.q[3], rtol=1e-4, atol=1e-5)


def test_one_candidate_is_explained_too(agent, actions):
    agent.k = 1
    why = agent.explain(np.zeros(3, np.float32))
    np.testing.assert_array_equal(why.actions[0], why.chosen)
    assert why.q.shape == why.distances.shape == (1,)


def test_a_set_that_is_never_listed_is_explained_too():
    agent = small_agent(TargetEnv(ActionProduct([np.linspace(-1, 1, 3)] * 100)), k=5)
    assert agent.explain(np.zeros(100, np.float32)).actions.shape == (5, 100)


def test_more_or_fewer_candidates_than_the_agents_own_are_explained_beside_its_pick(agent, actions):
    obs = np.random.default_rng(2).uniform(-1, 1, (BATCH, 3)).astype(np.float32)
    own = agent.explain(obs)
    for k in (1, 4, 30):
        why = agent.explain(obs, k=k)
        np.testing.assert_array_equal(why.actions, actions.nearest(why.proto, k))
        np.testing.assert_array_equal(why.chosen, own.chosen)
    assert agent.k == 9
    with pytest.raises(ValueError, match="k=0: give a whole number from 1"):
        agent.explain(obs, k=0)


@pytest.mark.parametrize("settings", [{"k": 1.0}, {"k": 30}], ids=str)
def test_both_sources_list_each_action_once_where_all_are_candidates(settings):
    actions = ActionTable(np.random.default_rng(0).uniform(-1, 1, (30, 2)))
    agent = small_agent(TargetEnv(actions, length=5), critic="two-tower", candidates="both", **settings)
    obs = np.zeros(2, np.float32)
    assert sorted(agent.explain(obs).actions.tolist()) == list(range(30))
    assert sorted(agent.rank(obs, top=30).actions.tolist()) == list(range(30))
    some = np.arange(20)
    for found in (agent.explain(obs, allowed=some), agent.rank(obs, top=20, allowed=some)):
        assert sorted(found.actions.tolist()) == some.tolist()
