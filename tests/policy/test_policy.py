"""Algorithm 1 against loops, for every kind of action set."""

import numpy as np
import pytest
import torch

from tests.agent.envs import TargetEnv, all_actions, best_of, scramble_all, small_agent, value
from wolpertinger import ActionProduct, ActionTable, Exploration, States

VECTORS = np.random.default_rng(5).uniform([-2, 0, 10], [2, 1, 30], size=(120, 3)).astype(np.float32)
LEVELS = [np.linspace(-2, 2, 6), np.linspace(0, 1, 5), np.linspace(10, 30, 4)]
SETS = {
    **{f"table {index}": ActionTable(VECTORS, index=index) for index in ("exact", "Flat", "IVF8,Flat", "HNSW16")},
    **{f"product {space}": ActionProduct(LEVELS, space=space) for space in ("discrete", "multidiscrete")},
}
BATCH = 7
AT_ONCE = "wolpertinger.policy.policy.CANDIDATES_AT_ONCE"


@pytest.fixture(params=SETS)
def actions(request):
    return SETS[request.param]


@pytest.fixture
def agent(actions):
    agent = small_agent(TargetEnv(actions), k=1, policy_kwargs={"net_arch": [16, 16], "n_critics": 2})
    scramble_all(agent)
    return agent


@pytest.fixture
def obs():
    return torch.as_tensor(np.random.default_rng(1).uniform(-1, 1, (BATCH, 3)).astype(np.float32))


@pytest.fixture
def proto(actions):
    return torch.as_tensor(np.random.default_rng(2).uniform(actions.low, actions.high, (BATCH, 3)).astype(np.float32))


def rank(agent, obs, proto, top=1):
    return agent.policy.behaviour.rank(States(obs, proto), agent.critic, top)


@torch.no_grad()
def sort_by_value(critic, state, actions, candidates):
    """All candidates of one state in the order of their values, among equal ones the earlier one first."""
    vectors = torch.from_numpy(actions.embed(candidates))
    values = critic(state.expand(len(vectors), -1), vectors).amin(dim=0).numpy()
    order = np.argsort(-values, kind="stable")
    return values[order], order


@pytest.mark.parametrize("k", [2, 9])
def test_the_best_equals_a_loop_over_states_and_candidates(agent, actions, obs, proto, k):
    agent.k = k
    ranking = rank(agent, obs, proto)
    for i in range(BATCH):
        candidates = actions.nearest(proto[i : i + 1].numpy(), k)[0]
        best, best_q = best_of(agent.critic, obs[i], actions, candidates)
        np.testing.assert_array_equal(ranking.actions[i, 0], best)
        np.testing.assert_array_equal(ranking.vectors[i, 0], actions.embed(best))
        assert ranking.values[i].item() == pytest.approx(best_q, rel=1e-4, abs=1e-5)
        values = [value(agent.critic, obs[i], actions.embed(candidate)) for candidate in candidates]
        assert ranking.mean[i].item() == pytest.approx(np.mean(values), rel=1e-4, abs=1e-5)
        assert ranking.is_nearest[i].item() == np.array_equal(best, candidates[0])
        np.testing.assert_array_equal(candidates[ranking.places[i, 0]], best)
    assert not ranking.is_nearest.all()  # else the critic had no say
    assert ranking.candidates.actions.shape[1] == k


@pytest.mark.parametrize("at_once", [1, 5, 20, 100_000])
@pytest.mark.parametrize(("k", "top"), [(9, 3), (9, 9), (9, 50), (1, 2), (120, 30), (120, 500)])
def test_the_order_of_the_best_equals_a_sort_by_value(agent, actions, obs, proto, monkeypatch, k, top, at_once):
    """Whole, or as a running top over blocks of candidates and parts of the batch."""
    monkeypatch.setattr(AT_ONCE, at_once)
    agent.k = k
    ranking = rank(agent, obs, proto, top)
    assert ranking.values.shape == ranking.places.shape == (BATCH, min(k, top))
    for i in range(BATCH):
        candidates = all_actions(actions) if k == actions.n else actions.nearest(proto[i : i + 1].numpy(), k)[0]
        values, order = sort_by_value(agent.critic, obs[i], actions, candidates)
        np.testing.assert_allclose(ranking.values[i], values[:top], rtol=1e-4, atol=1e-4)
        gaps = -np.diff(values[: top + 1])
        places = ranking.places[i].numpy()
        clear = np.minimum(np.append(gaps, 1)[: len(places)], np.insert(gaps, 0, 1)[: len(places)]) > 1e-4
        np.testing.assert_array_equal(places[clear], order[:top][clear])  # others rounding may swap
        assert len(set(places)) == len(places)
        np.testing.assert_array_equal(ranking.actions[i], candidates[places])
        np.testing.assert_array_equal(ranking.vectors[i], actions.embed(candidates[places]))
        assert clear.mean() > 0.8


@pytest.mark.parametrize("at_once", [1, 4, 100_000])
@pytest.mark.parametrize("k", [6, 12])
def test_equal_values_come_by_place(obs, monkeypatch, k, at_once):
    """The candidates of a critic without an opinion stay in their order, also over blocks."""
    monkeypatch.setattr(AT_ONCE, at_once)
    agent = small_agent(TargetEnv(ActionTable(VECTORS[:12])), k=k)
    with torch.no_grad():
        for parameter in agent.critic.parameters():
            parameter.zero_()
    proto = torch.as_tensor(VECTORS[:BATCH])
    for top in (1, 4, k):
        ranking = rank(agent, obs, proto, top)
        np.testing.assert_array_equal(ranking.places, np.tile(np.arange(top), (BATCH, 1)))
    expected = np.arange(12)[None].repeat(BATCH, 0) if k == 12 else agent.actions.nearest(proto.numpy(), k)
    np.testing.assert_array_equal(ranking.actions, expected)


def test_one_candidate_is_the_nearest_action(agent, actions, obs, proto):
    chosen = rank(agent, obs, proto).actions[:, 0]
    vectors = actions.embed(all_actions(actions))
    for i in range(BATCH):
        nearest = np.argmin(((vectors - proto[i].numpy()) ** 2).sum(axis=1))
        np.testing.assert_array_equal(chosen[i], all_actions(actions)[nearest])


def test_of_one_candidate_nobody_asks_the_critic_to_act(agent, obs, proto, monkeypatch):
    expected = rank(agent, obs, proto)
    assert expected.values.shape == (BATCH, 1)  # which are asked for
    monkeypatch.setattr(agent.critic, "features", lambda obs: pytest.fail("the critic was asked"))
    ranking = rank(agent, obs, proto)
    np.testing.assert_array_equal(ranking.actions, expected.actions)
    assert ranking.states.proto is proto
    monkeypatch.setattr(type(agent.actor), "forward", lambda self, obs: proto)
    np.testing.assert_array_equal(agent.predict(obs.numpy(), deterministic=True)[0], expected.actions[:, 0])
    assert len(rank(agent, obs[:0], proto[:0]).actions) == 0


def test_of_several_candidates_the_critic_picks_the_action(agent, obs, proto, monkeypatch):
    agent.k = 9
    monkeypatch.setattr(agent.critic, "features", lambda obs: pytest.fail("the critic was asked"))
    with pytest.raises(pytest.fail.Exception, match="the critic was asked"):
        _ = rank(agent, obs, proto).actions


def test_all_candidates_give_the_greedy_action_over_all_of_a(agent, actions, obs, proto):
    agent.k = actions.n
    chosen = rank(agent, obs, proto).actions[:, 0]
    for i in range(BATCH):
        best, _ = best_of(agent.critic, obs[i], actions, all_actions(actions))
        np.testing.assert_array_equal(chosen[i], best)


def test_predict_is_the_best_at_the_actors_proto_action(agent, actions, obs):
    agent.k = 9
    chosen, state = agent.predict(obs.numpy(), deterministic=True)
    assert state is None
    for i in range(BATCH):
        candidates = actions.nearest(agent.actor(obs[i : i + 1]).detach().numpy(), 9)[0]
        np.testing.assert_array_equal(chosen[i], best_of(agent.critic, obs[i], actions, candidates)[0])
        assert chosen[i] in actions.space
    one, _ = agent.predict(obs[0].numpy())
    np.testing.assert_array_equal(one, chosen[0])


def test_nothing_is_learned_through_a_ranking(agent, obs, proto):
    ranking = rank(agent, obs, proto.requires_grad_())
    assert not ranking.values.requires_grad  # scored here, outside of `rank`
    assert not ranking.vectors.requires_grad


@pytest.mark.parametrize("at_once", [1, 50, 100_000])
def test_with_k_as_large_as_the_set_the_best_of_all_actions_is_chosen(agent, actions, obs, proto, monkeypatch, at_once):
    monkeypatch.setattr(AT_ONCE, at_once)
    monkeypatch.setattr(type(actions), "nearest", None)  # there is nothing to look up
    agent.k = 1.0
    ranking = rank(agent, obs, proto)
    for i in range(BATCH):
        best, best_q = best_of(agent.critic, obs[i], actions, all_actions(actions))
        np.testing.assert_array_equal(ranking.actions[i, 0], best)
        np.testing.assert_array_equal(ranking.vectors[i, 0], actions.embed(best))
        assert ranking.values[i].item() == pytest.approx(best_q, rel=1e-4, abs=1e-5)
        values = [value(agent.critic, obs[i], actions.embed(action)) for action in all_actions(actions)]
        assert ranking.mean[i].item() == pytest.approx(np.mean(values), rel=1e-4, abs=1e-5)
        np.testing.assert_array_equal(all_actions(actions)[ranking.places[i, 0]], best)
    assert rank(agent, obs, proto, top=2 * actions.n).values.shape == (BATCH, actions.n)  # all were candidates
    assert ranking.is_nearest is None


@pytest.mark.parametrize("at_once", [1, 20, 30])
def test_a_batch_whose_candidates_do_not_fit_is_looked_up_in_parts(agent, obs, proto, monkeypatch, at_once):
    agent.k = 9
    whole = rank(agent, obs, proto).scored()
    monkeypatch.setattr(AT_ONCE, at_once)
    looked_up = []
    lookup = agent.policy.behaviour.source.find
    monkeypatch.setattr(
        agent.policy.behaviour.source, "find", lambda states, k: looked_up.append((len(states), k)) or lookup(states, k)
    )
    parts = rank(agent, obs, proto)
    assert_equal(parts, whole)
    rows = max(1, at_once // 9)
    assert looked_up == [(min(rows, BATCH - start), 9) for start in range(0, BATCH, rows)]


def test_the_candidates_of_one_state_come_in_parts_when_they_are_very_many(agent, obs, proto, monkeypatch):
    agent.k = 100
    whole = rank(agent, obs, proto).scored()
    monkeypatch.setattr(AT_ONCE, 30)
    embedded, embed = [], type(agent.actions).embed
    monkeypatch.setattr(
        type(agent.actions), "embed", lambda self, given: embedded.append(len(given[0])) or embed(self, given)
    )
    assert_equal(rank(agent, obs, proto), whole)
    assert embedded == [30, 30, 30, 10] * BATCH


def assert_equal(ranking, other):
    np.testing.assert_array_equal(ranking.actions, other.actions)
    torch.testing.assert_close(ranking.values, other.values)
    torch.testing.assert_close(ranking.vectors, other.vectors)
    torch.testing.assert_close(ranking.places, other.places)
    torch.testing.assert_close(ranking.is_nearest, other.is_nearest)
    torch.testing.assert_close(ranking.mean, other.mean, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("k", [1, 2, 120])
def test_a_batch_of_no_states(agent, k):
    agent.k = k
    ranking = rank(agent, torch.zeros(0, 3), torch.zeros(0, 3))
    assert len(ranking.actions) == len(ranking.values) == 0


@pytest.mark.parametrize("index", ["exact", "Flat", "IVF8,Flat", "HNSW16", "auto"])
def test_removed_actions_are_never_chosen_nor_explored(index):
    env = TargetEnv(ActionTable(VECTORS, index=index), length=5)
    agent = small_agent(env, k=64, exploration=Exploration(sigma=0.5, epsilon=0.5), learning_starts=10).learn(30)
    left = [3, 5, 50, 100]
    env.set.remove(np.setdiff1d(np.arange(120), left))
    assert len(agent.explain(np.zeros(3, np.float32)).actions) == 4  # fewer than k
    env.executed.clear()
    agent.learn(60, reset_num_timesteps=False)  # what was done before is still learned from
    assert {int(action) for action in env.executed} == set(left)
    assert set(agent.predict(np.random.default_rng(0).uniform(-1, 1, (50, 3)).astype(np.float32))[0]) <= set(left)
    fresh = small_agent(env, k=2, learning_starts=30)  # begins with random actions
    env.executed.clear()
    fresh.learn(30)
    assert {int(action) for action in env.executed} <= set(left)


def test_added_actions_are_chosen_from_the_next_lookup_on():
    actions = ActionTable(VECTORS)
    agent = small_agent(TargetEnv(actions), k=1)
    obs = np.zeros(3, np.float32)
    (new,) = actions.add(agent.explain(obs).proto[None])
    assert agent.predict(obs)[0] == new


def test_removed_actions_are_not_among_all_actions():
    table = ActionTable(VECTORS)
    agent = small_agent(TargetEnv(table), k=1.0, policy_kwargs={"net_arch": [16, 16]})
    scramble_all(agent)
    obs, proto = torch.zeros(1, 3), torch.zeros(1, 3)
    best = rank(agent, obs, proto).actions[:, 0]
    table.remove(best.numpy())
    assert rank(agent, obs, proto).actions[:, 0] != best
