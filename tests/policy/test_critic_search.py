"""The candidates that a two-tower critic finds in all of A, beside loops over all of A; and the age of its keys."""

import numpy as np
import pytest
import torch

from tests.agent.envs import DictEnv, TargetEnv, all_actions, best_of, scramble, small_agent
from tests.policy.two_towers import VECTORS, all_values, fresh, states, tower_agent, updated
from wolpertinger import ActionProduct, ActionTable, BestByCritic, States, TooManyActionsError, TwoTower, Union
from wolpertinger.policy import critic_search as module

CRITICS = {
    "one": {},
    "layer norm": {"policy_kwargs": {"layer_norm": True}},
    "unit features": {"policy_kwargs": {"unit_features": True}},
    "twins": {"policy_kwargs": {"n_critics": 2}},
    "state layers": {"policy_kwargs": {"state_arch": [12]}},
    "one layer": {"policy_kwargs": {"net_arch": [16]}},
    "narrow": {"critic": TwoTower(width=2)},
    "embeddings": {"critic": TwoTower(state_embedding=50, action_embedding=1000)},
}


def rank(agent, obs, critic=None):
    """As training does."""
    return agent.policy.behaviour.rank(States(obs), critic or agent.critic)


@pytest.mark.parametrize("critic", CRITICS)
def test_with_k_1_and_fresh_keys_the_choice_is_the_best_of_all_actions(critic):
    agent = fresh(tower_agent(k=1, **CRITICS[critic]))
    obs = states()
    expected = all_values(agent, obs).argmax(dim=1)
    if critic == "twins":  # it searches by the mean of the critics
        vectors = torch.from_numpy(VECTORS).expand(len(obs), -1, -1)
        expected = agent.critic(obs, vectors).mean(dim=0).argmax(dim=1)
    np.testing.assert_array_equal(agent.predict(obs.numpy(), deterministic=True)[0], expected)
    np.testing.assert_array_equal(rank(agent, obs).actions[:, 0], expected)
    assert len(expected.unique()) > 1


@pytest.mark.parametrize("n_actions", [300, 2_000])  # fewer and more than are shared out among the states
def test_of_all_actions_as_candidates_the_best_is_chosen(n_actions):
    vectors = np.random.default_rng(0).normal(size=(n_actions, 3))
    env = TargetEnv(ActionTable(vectors), length=5)
    agent = fresh(tower_agent(env, k=n_actions, candidates="nearest", policy_kwargs={"n_critics": 2}))
    obs = states()
    ranking = agent.policy.behaviour.rank(States(obs, agent.actor(obs)), agent.critic)
    values = all_values(agent, obs)
    torch.testing.assert_close(ranking.values[:, 0], values.amax(dim=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(ranking.actions[:, 0], values.argmax(dim=1))


@torch.no_grad()
def test_k_candidates_are_the_k_best_of_all_best_first():
    agent = fresh(tower_agent(k=9))
    obs = states()
    found = agent.explain(obs.numpy())
    np.testing.assert_array_equal(found.actions, all_values(agent, obs).topk(9, dim=1).indices)
    assert (found.sources == "critic").all()
    np.testing.assert_array_equal(found.chosen, found.actions[:, 0])


def test_the_target_is_the_best_of_the_candidates_by_the_target_critic():
    agent = fresh(tower_agent(k=6))
    obs = states()
    ranking = rank(agent, obs, agent.critic_target)
    candidates = all_values(agent, obs).topk(6, dim=1).indices.numpy()
    for state, action, value, row in zip(obs, ranking.actions, ranking.values, candidates, strict=True):
        expected, q = best_of(agent.critic_target, state, agent.actions, row)
        assert (int(action), value.item()) == (expected, pytest.approx(q, rel=1e-4))


def test_keys_stay_as_they_are_for_so_many_updates():
    agent = fresh(tower_agent(k=4, candidates=BestByCritic(refresh_every=3)))
    source, obs = agent.policy.behaviour.source, states()
    before = source.find(States(obs), 4).actions
    scramble(agent.critic, 10)
    values = all_values(agent, obs)
    for age in (1, 2):
        updated(agent)
        ranking = rank(agent, obs)
        assert source.age == source.stats()["staleness"] == age
        among = values.gather(1, before)  # found by the old critic, re-ranked by the new one
        torch.testing.assert_close(ranking.values[:, 0], among.amax(dim=1), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(ranking.actions, before.gather(1, among.argmax(dim=1, keepdim=True)))
    updated(agent)
    np.testing.assert_array_equal(rank(agent, obs).actions[:, 0], values.argmax(dim=1))
    assert source.age == 0
    assert source.agreement < 1
    assert source.stats()["agreement"] == source.agreement


def test_expired_keys_are_refreshed_at_once_but_only_if_the_critic_has_learned():
    agent = fresh(tower_agent(k=4, candidates=BestByCritic(refresh_every=1_000)))
    source, obs = agent.policy.behaviour.source, states()
    before = source.find(States(obs), 4).actions
    scramble(agent.critic, 10)
    source.expire()
    np.testing.assert_array_equal(source.find(States(obs), 4).actions, before)  # nobody said that it has learned
    source.critic_updated()
    np.testing.assert_array_equal(source.find(States(obs), 4).actions, all_values(agent, obs).topk(4, dim=1).indices)
    scramble(agent.critic, 11)
    source.critic_updated()
    assert source.age == 1
    found = source.find(States(obs), 4).actions  # it expired once, not for ever
    assert not np.array_equal(found, all_values(agent, obs).topk(4, dim=1).indices)


def test_the_agreement_is_the_share_of_recent_states_whose_best_action_stayed():
    agent = fresh(tower_agent(k=4, candidates=BestByCritic(refresh_every=1)))
    source, obs = agent.policy.behaviour.source, states(module.COMPARED_STATES)
    before = source.find(States(obs), 4).actions[:, 0]
    with torch.no_grad():
        for parameter in agent.critic.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    updated(agent)
    after = source.find(States(obs), 4).actions[:, 0]
    assert 0 < source.agreement < 1
    assert source.agreement == pytest.approx((before == after).float().mean().item())


def test_small_sets_are_always_fresh_and_large_ones_now_and_then(monkeypatch):
    assert tower_agent().policy.behaviour.source.every == 1
    many = ActionTable(np.random.default_rng(0).normal(size=(8_000, 3)))
    assert tower_agent(TargetEnv(many)).policy.behaviour.source.every == 8_000 // module.KEYS_PER_UPDATE
    monkeypatch.setattr(module, "INDEXED_FROM", 8_000)
    source = tower_agent(TargetEnv(many)).policy.behaviour.source
    assert source.every == module.YOUNG_UPDATES < 8_000 // module.INDEXED_KEYS_PER_UPDATE
    for _ in range(10_000):
        source.critic_updated()
    assert source.every == 8_000 // module.INDEXED_KEYS_PER_UPDATE
    agent = tower_agent(TargetEnv(many), candidates=BestByCritic(refresh_every=5))
    assert agent.policy.behaviour.source.every == 5


def test_new_actions_are_found_at_once_and_removed_ones_no_more():
    actions = ActionTable(VECTORS[:50])
    agent = fresh(tower_agent(TargetEnv(actions, length=5), k=1, candidates=BestByCritic(refresh_every=1_000)))
    obs = states(40)

    def assert_found(best):
        np.testing.assert_array_equal(agent.predict(obs.numpy(), deterministic=True)[0], best)
        np.testing.assert_array_equal(rank(agent, obs).actions[:, 0], best)

    assert_found(all_values(agent, obs).argmax(dim=1))
    actions.add(VECTORS[50:])
    best = all_values(agent, obs).argmax(dim=1).numpy()
    assert (best >= 50).any()
    assert_found(best)
    actions.remove(np.unique(best))
    values = all_values(agent, obs)
    values[:, np.unique(best)] = -torch.inf
    assert_found(values.argmax(dim=1))


def test_the_recent_states_are_those_of_several_calls():
    source = tower_agent(k=1).policy.behaviour.source
    parts = [states(n, seed=n) for n in (400, 300, 60, 1)]
    for part in parts:
        source.find(States(part), 1)
    recent = module.RECENT_STATES
    np.testing.assert_array_equal(source._recent_obs(recent), torch.cat(parts)[-recent:])
    for _ in range(2 * recent):
        source.find(States(parts[-1]), 1)
    assert len(source._recent) == recent


@pytest.mark.parametrize("space", ["discrete", "multidiscrete"])
def test_products_that_can_be_listed_are_searched_too(space):
    product = ActionProduct([np.linspace(-1, 1, 5)] * 3, space=space)
    agent = fresh(tower_agent(TargetEnv(product, length=5), k=2))
    obs = states()
    found = agent.explain(obs.numpy()).actions
    best = all_values(agent, obs).topk(2, dim=1).indices.numpy()
    np.testing.assert_array_equal(found, all_actions(product)[best])


@torch.no_grad()
def test_keys_are_those_of_the_snapshot():
    agent = fresh(tower_agent(policy_kwargs={"n_critics": 2}))
    source = agent.policy.behaviour.source
    source.find(States(states()), 1)
    expected = agent.critic.keys(torch.from_numpy(VECTORS))
    torch.testing.assert_close(source.keys().vectors, expected)
    scramble(agent.critic, 10)
    torch.testing.assert_close(source.keys().vectors, expected, rtol=0, atol=0)


def test_dict_observations():
    agent = tower_agent(DictEnv(length=5), policy="MultiInputPolicy", k=2, candidates=BestByCritic(refresh_every=2))
    agent.learn(60)
    assert agent.policy.behaviour.source.agreement is not None
    obs = [agent.env.envs[0].unwrapped.observation_space.sample() for _ in range(5)]
    batch = {name: np.stack([each[name] for each in obs]) for name in obs[0]}
    tensors, _ = agent.policy.obs_to_tensor(batch)
    vectors = torch.from_numpy(agent.actions.vectors.copy())
    with torch.no_grad():
        values = agent.critic(tensors, vectors.expand(5, -1, -1))[0]
    np.testing.assert_array_equal(agent.predict(batch)[0], values.argmax(dim=1))


@pytest.mark.parametrize("candidates", [BestByCritic(refresh_every=5), Union(("nearest", BestByCritic(5)))])
@pytest.mark.parametrize("age", [0, 2])
@pytest.mark.parametrize("expired", [False, True])
def test_what_a_source_keeps_lets_another_one_find_the_same(candidates, age, expired):
    one, other = (fresh(tower_agent(k=4, candidates=candidates, policy_kwargs={"n_critics": 2})) for _ in range(2))
    ours, theirs, given = one.policy.behaviour.source, other.policy.behaviour.source, States(states(), states(seed=2))
    scramble(other.critic, 20)
    assert not np.array_equal(theirs.find(given, 4).actions, ours.find(given, 4).actions)
    for agent in (one, other):  # now the critic is another one than that of the snapshot
        scramble(agent.critic, 10)
    for _ in range(age):
        ours.critic_updated()
    if expired:
        ours.expire()
    state = {name: tensor.clone() for name, tensor in ours.state_dict().items()}
    theirs.load_state_dict(state)
    assert theirs.state_dict().keys() == state.keys()
    for name, tensor in theirs.state_dict().items():
        torch.testing.assert_close(tensor, state[name], rtol=0, atol=0)
    for _ in range(7):  # both refresh at the same time
        assert theirs.stats()["staleness"] == ours.stats()["staleness"]
        np.testing.assert_array_equal(theirs.find(given, 4).actions, ours.find(given, 4).actions)
        ours.critic_updated()
        theirs.critic_updated()


def test_k_may_change_and_be_more_than_there_are():
    actions = ActionTable(VECTORS[:20])
    agent = fresh(tower_agent(TargetEnv(actions, length=5), k=2, candidates="both"))
    agent.k = 15
    obs = states()
    assert agent.explain(obs.numpy()).actions.shape == (7, 30)
    actions.remove(np.arange(10))
    np.testing.assert_array_equal(agent.predict(obs.numpy())[0], 10 + all_values(agent, obs)[:, 10:].argmax(dim=1))


def test_on_another_device_the_search_goes_along():
    agent = fresh(tower_agent(k=2))
    source = agent.policy.behaviour.source
    source.find(States(states()), 2)
    agent.policy.to("meta")  # without numbers, but with shapes and a device
    found = source.find(States(torch.zeros(5, 3, device="meta")), 2).actions
    assert (found.device.type, found.shape) == ("meta", (5, 2))
    assert source.keys().vectors.device.type == source.snapshot.scale.middle.device.type == "meta"


@pytest.mark.parametrize("every", [0, -1, 2.5, True, "often"])
def test_keys_that_are_never_refreshed_are_refused(every):
    with pytest.raises(ValueError, match=r"refresh_every=.*: give a whole number of at least 1 or None"):
        BestByCritic(refresh_every=every)


@pytest.mark.parametrize("candidates", ["critic", "both"])
def test_a_critic_without_keys_cannot_search(candidates):
    with pytest.raises(ValueError, match='give critic="two-tower"'):
        small_agent(candidates=candidates)


def test_sets_that_are_never_listed_are_refused_but_nearest_works(monkeypatch):
    huge = ActionProduct([np.linspace(-1, 1, 2)] * 100)
    env = TargetEnv(huge, length=5)
    with pytest.raises(TooManyActionsError, match="too large to go through"):
        small_agent(env, critic="two-tower", candidates="critic")
    agent = small_agent(env, critic="two-tower", k=4)
    agent.learn(40)
    assert huge.space.contains(agent.predict(env.reset(seed=0)[0])[0])
    monkeypatch.setattr(module, "MAX_KEYS", 299)
    with pytest.raises(TooManyActionsError, match="300 actions, 299 at most"):
        tower_agent()
