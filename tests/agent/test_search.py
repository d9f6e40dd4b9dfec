"""A critic of two towers, and the candidates that it finds in all of A, beside loops over all of A."""

import copy
from time import perf_counter

import numpy as np
import pytest
import torch
from stable_baselines3.common.logger import configure

from wolpertinger import ActionProduct, ActionTable, Wolpertinger
from wolpertinger.agent import search as module

from .envs import (
    DictEnv,
    NormalisedExtractor,
    TargetEnv,
    all_actions,
    best_of,
    greedy,
    scramble,
    scramble_all,
    small_agent,
)

VECTORS = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
CRITICS = {
    "one": {},
    "layer norm": {"layer_norm": True},
    "twins": {"n_critics": 2},
    "state layers": {"state_arch": [12]},
    "one layer": {"net_arch": [16]},
    "narrow": {"tower_kwargs": {"width": 2}},
    "memories": {"tower_kwargs": {"state_memory": 50, "action_memory": 1000}},
}


def tower_agent(env=None, **kwargs):
    env = TargetEnv(ActionTable(VECTORS), length=5) if env is None else env
    policy_kwargs = {"net_arch": [16, 16], **kwargs.pop("policy_kwargs", {})}
    policy = kwargs.pop("policy", "MlpPolicy")
    return small_agent(
        env, policy, critic="two-tower", policy_kwargs=policy_kwargs, **{"candidates": "critic", **kwargs}
    )


def fresh(agent):
    """Other weights, and keys that know of them."""
    scramble_all(agent)
    agent.policy.tick()
    agent.policy.refresh()
    return agent


def states(n=7, seed=1):
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def all_values(agent, obs, critic=None):
    table = isinstance(agent.actions, ActionTable)  # whose ids may have been removed
    vectors = torch.from_numpy(
        agent.actions.embed(np.arange(agent.actions.space.n) if table else all_actions(agent.actions))
    )
    return (critic or agent.critic)(obs, vectors.expand(len(obs), -1, -1)).amin(dim=0)


@pytest.mark.parametrize("critic", CRITICS)
def test_with_k_1_and_fresh_keys_the_choice_is_the_best_of_all_actions(critic):
    agent = fresh(tower_agent(k=1, policy_kwargs=CRITICS[critic]))
    obs = states()
    expected = all_values(agent, obs).argmax(dim=1)
    if "n_critics" in CRITICS[critic]:  # it searches by the mean of the critics
        vectors = torch.from_numpy(VECTORS).expand(len(obs), -1, -1)
        expected = agent.critic(obs, vectors).mean(dim=0).argmax(dim=1)
    np.testing.assert_array_equal(agent.predict(obs.numpy(), deterministic=True)[0], expected)
    assert len(expected.unique()) > 1


@torch.no_grad()
def test_the_value_is_the_product_of_the_towers_and_what_each_adds():
    agent = fresh(tower_agent())
    network, obs, vector = agent.critic.q_networks[0], states(1), torch.from_numpy(VECTORS[:1])
    state, action = network.state_tower(obs)[0], network.action_tower(agent.critic.scale.to_inputs(vector))[0]
    product = sum(float(state[i] * action[i]) for i in range(len(state) - 1))
    assert agent.critic(obs, vector).item() == pytest.approx(product + float(action[-1]) + float(state[-1]), rel=1e-4)


def test_values_start_near_0_and_every_layer_has_a_gradient():
    agent = tower_agent()
    q = agent.critic(states(), torch.from_numpy(VECTORS[:7]))
    assert q.abs().max() < 0.1
    q.sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().max() > 0 for parameter in agent.critic.parameters())


@pytest.mark.parametrize("n_actions", [300, 2_000])  # fewer and more than are shared out among the states
def test_of_all_actions_as_candidates_the_best_is_chosen(n_actions):
    vectors = np.random.default_rng(0).normal(size=(n_actions, 3))
    env = TargetEnv(ActionTable(vectors), length=5)
    agent = fresh(tower_agent(env, k=n_actions, candidates="nearest", policy_kwargs={"n_critics": 2}))
    obs = states()
    choice = agent.policy.choose(obs, agent.actor(obs), agent.critic)
    values = all_values(agent, obs)
    torch.testing.assert_close(choice.value, values.amax(dim=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(choice.action, values.argmax(dim=1))


@torch.no_grad()
def test_k_candidates_are_the_k_best_of_all_best_first():
    agent = fresh(tower_agent(k=9))
    obs = states()
    found = agent.explain(obs.numpy())
    np.testing.assert_array_equal(found.actions, all_values(agent, obs).topk(9, dim=1).indices)
    assert (found.sources == "critic").all()
    np.testing.assert_array_equal(found.chosen, found.actions[:, 0])


def test_both_holds_the_nearest_and_the_best_and_says_which_is_which():
    agent = fresh(tower_agent(k=5, candidates="both"))
    obs = states(40)
    found = agent.explain(obs.numpy())
    protos = agent.actor(obs).detach().numpy()
    np.testing.assert_array_equal(found.actions[:, :5], agent.actions.nearest(protos, 5))
    np.testing.assert_array_equal(found.actions[:, 5:], all_values(agent, obs).topk(5, dim=1).indices)
    for row, source in zip(found.actions, found.sources, strict=True):
        near, best = set(row[:5]), set(row[5:])
        for action, name in zip(row, source, strict=True):
            assert name == ("both" if action in near & best else "nearest" if action in near else "critic")
    assert {"nearest", "critic", "both"} == set(found.sources.flat)


def test_the_target_is_the_best_of_the_candidates_by_the_target_critic():
    agent = fresh(tower_agent(k=6))
    obs = states()
    choice = agent.policy.choose(obs, agent.actor_target(obs), agent.critic_target)
    candidates = all_values(agent, obs).topk(6, dim=1).indices.numpy()
    for state, action, value, row in zip(obs, choice.action, choice.value, candidates, strict=True):
        expected, q = best_of(agent.critic_target, state, agent.actions, row)
        assert (int(action), value.item()) == (expected, pytest.approx(q, rel=1e-4))


def test_keys_stay_as_they_are_for_so_many_updates():
    agent = fresh(tower_agent(k=4, policy_kwargs={"refresh_every": 3}))
    obs = states()
    before = agent.explain(obs.numpy()).actions
    scramble(agent.critic, 10)
    values = all_values(agent, obs)
    for age in (1, 2):
        agent.policy.tick()
        choice = agent.policy.choose(obs, agent.actor(obs), agent.critic)  # as training does
        assert int(agent.policy.search.age) == age
        among = values.gather(1, torch.from_numpy(before))  # found by the old critic, re-ranked by the new one
        np.testing.assert_array_equal(choice.action, before[np.arange(len(obs)), among.argmax(dim=1)])
        torch.testing.assert_close(choice.value, among.amax(dim=1), rtol=1e-4, atol=1e-5)
    agent.policy.tick()
    choice = agent.policy.choose(obs, agent.actor(obs), agent.critic)
    np.testing.assert_array_equal(choice.action, values.argmax(dim=1))
    assert int(agent.policy.search.age) == 0
    assert agent.policy.search.agreement < 1


@pytest.mark.parametrize("use", ["predict", "explain"])
def test_outside_of_training_nothing_goes_by_old_keys(use):
    agent = fresh(tower_agent(k=1, policy_kwargs={"refresh_every": 1_000}))
    obs = states()
    agent.predict(obs.numpy())
    scramble(agent.critic, 10)
    agent.policy.tick()
    found = agent.predict(obs.numpy())[0] if use == "predict" else agent.explain(obs.numpy()).chosen
    np.testing.assert_array_equal(found, all_values(agent, obs).argmax(dim=1))


@pytest.mark.parametrize("predict_by", ["critic", "target"])
def test_parameters_of_another_agent_come_with_their_keys(predict_by):
    one, other = (tower_agent(k=1, policy_kwargs={"refresh_every": 1_000, "predict_by": predict_by}) for _ in range(2))
    obs = states().numpy()
    fresh(one).predict(obs)
    other.predict(obs)
    other.set_parameters(one.get_parameters())
    np.testing.assert_array_equal(other.predict(obs)[0], one.predict(obs)[0])


def test_the_log_tells_the_age_of_the_keys(tmp_path):
    agent = tower_agent(k=4, policy_kwargs={"refresh_every": 7})
    agent.set_logger(configure(str(tmp_path), ["csv"]))
    agent.learn(60, log_interval=1)
    agent.logger.close()
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert {"search/age", "search/agreement", "search/seconds", "time/search"} <= set(header.split(","))


def test_small_sets_are_always_fresh_and_large_ones_now_and_then():
    assert tower_agent().policy.search.every == 1
    many = ActionTable(np.random.default_rng(0).normal(size=(8_000, 3)))
    assert tower_agent(TargetEnv(many)).policy.search.every == 8_000 // module.PER_UPDATE


def test_new_actions_are_found_at_once_and_removed_ones_no_more():
    actions = ActionTable(VECTORS[:50])
    agent = fresh(tower_agent(TargetEnv(actions, length=5), k=1, policy_kwargs={"refresh_every": 1_000}))
    obs = states(40)
    agent.predict(obs.numpy())
    actions.add(VECTORS[50:])
    best = all_values(agent, obs).argmax(dim=1).numpy()
    assert (best >= 50).any()
    np.testing.assert_array_equal(agent.predict(obs.numpy(), deterministic=True)[0], best)
    actions.remove(np.unique(best))
    values = all_values(agent, obs)
    values[:, np.unique(best)] = -torch.inf
    np.testing.assert_array_equal(agent.predict(obs.numpy(), deterministic=True)[0], values.argmax(dim=1))


def test_many_keys_are_searched_by_an_index(monkeypatch):
    monkeypatch.setattr(module, "INDEXED", 1_500)
    actions = ActionTable(np.random.default_rng(0).normal(size=(2_000, 3)))
    agent = fresh(tower_agent(TargetEnv(actions, length=5), k=3))
    obs = states(200)
    found, expected = agent.explain(obs.numpy()).actions, all_values(agent, obs).topk(3, dim=1).indices.numpy()
    shared = [len(set(row) & set(other)) for row, other in zip(found, expected, strict=True)]
    assert np.mean(shared) >= 3 * (module.RECALL - 0.05)
    found_by = agent.policy.search
    assert found_by._index.tuning_seconds > 0
    assert found_by.seconds >= found_by._index.tuning_seconds
    spent = found_by.seconds
    actions.remove(np.arange(1_000))  # too few for an index
    found = agent.explain(obs.numpy()).actions
    assert found.min() >= 1_000
    np.testing.assert_array_equal(found, 1_000 + all_values(agent, obs)[:, 1_000:].topk(3, dim=1).indices.numpy())
    assert found_by.seconds > spent


def test_the_last_states_are_those_of_several_calls():
    search = tower_agent(k=1).policy.search
    parts = [states(n, seed=n) for n in (400, 300, 60, 1)]
    for part in parts:
        search.query(part)
    np.testing.assert_array_equal(search._last_states(module.ASKED), torch.cat(parts)[-module.ASKED :])
    for _ in range(2 * module.ASKED):
        search.query(parts[-1])
    assert len(search._asked) == module.ASKED


def test_an_index_over_new_keys_is_judged_by_the_new_critics_queries(monkeypatch):
    monkeypatch.setattr(module, "INDEXED", 1_500)
    actions = ActionTable(np.random.default_rng(0).normal(size=(2_000, 3)))
    start = perf_counter()
    agent = fresh(tower_agent(TargetEnv(actions, length=5), k=3))
    obs = states(module.ASKED)
    agent.explain(obs.numpy())
    search, before = agent.policy.search, agent.policy.search._index
    for parameter in agent.critic.parameters():
        parameter.data.mul_(1.5)
    search.tick()
    search.catch_up(agent.critic, now=True)
    search.keys()
    assert search._index is not before
    expected = search._index._lengthen(search.query(obs).numpy())
    np.testing.assert_array_equal(search._index._index._recent[: len(obs)], expected)
    assert before.tuning_seconds <= search._index.tuning_seconds <= search.seconds < perf_counter() - start


@pytest.mark.parametrize("space", ["discrete", "multidiscrete"])
def test_products_that_can_be_listed_are_searched_too(space):
    product = ActionProduct([np.linspace(-1, 1, 5)] * 3, space=space)
    agent = fresh(tower_agent(TargetEnv(product, length=5), k=2))
    obs = states()
    found = agent.explain(obs.numpy()).actions
    best = all_values(agent, obs).topk(2, dim=1).indices.numpy()
    np.testing.assert_array_equal(found, all_actions(product)[best])


def test_dict_observations():
    agent = tower_agent(DictEnv(length=5), policy="MultiInputPolicy", k=2, policy_kwargs={"refresh_every": 2})
    agent.learn(60)
    assert agent.policy.search.agreement is not None
    obs = [agent.env.envs[0].unwrapped.observation_space.sample() for _ in range(5)]
    batch = {name: np.stack([each[name] for each in obs]) for name in obs[0]}
    tensors, _ = agent.policy.obs_to_tensor(batch)
    vectors = torch.from_numpy(agent.actions.vectors.copy())
    with torch.no_grad():
        values = agent.critic(tensors, vectors.expand(5, -1, -1))[0]
    np.testing.assert_array_equal(agent.predict(batch)[0], values.argmax(dim=1))


@pytest.mark.parametrize("age", [0, 2])
def test_a_saved_agent_goes_on_with_keys_of_the_same_age(tmp_path, age):
    agent = fresh(tower_agent(k=4, policy_kwargs={"refresh_every": 5, "n_critics": 2}))
    obs = states().numpy()
    agent.predict(obs)
    scramble(agent.critic, 10)
    for _ in range(age):
        agent.policy.tick()
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert loaded.forms == {"critic": "two-tower", "candidates": "critic"}
    assert int(loaded.policy.search.age) == age
    same = [found.policy.choose(states(), found.actor(states()), found.critic).action for found in (agent, loaded)]
    np.testing.assert_array_equal(*same)
    np.testing.assert_array_equal(loaded.explain(obs).q, agent.explain(obs).q)


def test_training_goes_on_from_a_file_as_it_would_have(tmp_path):
    first = tower_agent(k=4, policy_kwargs={"refresh_every": 7})
    first.learn(40)
    updated(first, 3)
    assert int(first.policy.search.age) > 0
    first.save(tmp_path / "agent.zip", include=["replay_buffer"])
    second = Wolpertinger.load(tmp_path / "agent.zip")
    second.set_logger(first.logger)
    for agent in (first, second):
        updated(agent, 10)
    for name, tensor in first.policy.state_dict().items():
        torch.testing.assert_close(second.policy.state_dict()[name], tensor, rtol=0, atol=0)


def updated(agent, times):
    np.random.seed(3)  # noqa: NPY002 - Stable-Baselines3's buffer draws from here
    for _ in range(times):
        agent.train(1, 16)


def test_its_own_vectors_of_the_actions():
    agent = fresh(tower_agent(policy_kwargs={"n_critics": 2}))
    vectors = agent.action_vectors()
    inputs = agent.critic.scale.to_inputs(torch.from_numpy(VECTORS))
    expected = torch.cat([network.action_tower(inputs)[:, :-1] for network in agent.critic.q_networks], dim=1)
    np.testing.assert_allclose(vectors, expected.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("candidates", ["critic", "both"])
def test_an_actor_that_nobody_asks_is_not_trained(candidates):
    agent = tower_agent(candidates=candidates)
    before = [parameter.clone() for parameter in agent.actor.parameters()]
    agent.learn(40)
    same = all(torch.equal(one, other) for one, other in zip(before, agent.actor.parameters(), strict=True))
    assert same == (candidates == "critic")


@pytest.mark.parametrize("candidates", ["critic", "both"])
def test_an_actor_that_nobody_asks_does_no_work_and_is_not_logged(candidates, tmp_path):
    agent, asked = tower_agent(candidates=candidates), []
    for actor in (agent.actor, agent.actor_target):
        actor.mu.register_forward_hook(lambda *_: asked.append(1))
    agent.set_logger(configure(str(tmp_path), ["json"]))
    agent.learn(40, log_interval=1)
    agent.predict(states().numpy())
    agent.explain(states().numpy())
    agent.logger.close()
    logged = "actor_saturation" in (tmp_path / "progress.json").read_text()
    assert (bool(asked), logged) == (candidates == "both", candidates == "both")


@pytest.mark.parametrize("predict_by", ["critic", "target"])
def test_a_callback_that_predicts_does_not_change_what_is_learned(predict_by):
    def learned(callback):
        agent = tower_agent(k=4, policy_kwargs={"refresh_every": 7, "predict_by": predict_by})
        agent.learn(60, callback=callback)
        return agent.critic.state_dict()

    def predicts(local_variables, _):
        local_variables["self"].predict(states().numpy())
        return True

    for one, other in zip(learned(None).values(), learned(predicts).values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("candidates", ["critic", "both", "nearest"])
def test_an_agent_may_predict_by_its_target_critic(candidates, tmp_path):
    agent = tower_agent(k=300, candidates=candidates, policy_kwargs={"predict_by": "target"})
    agent.k = 299 if candidates == "nearest" else 1
    obs = states(50)

    def assert_best():
        values = all_values(agent, obs, agent.critic_target)
        why = agent.explain(obs.numpy())
        if candidates == "nearest":
            values = values.gather(1, torch.as_tensor(why.actions))
            np.testing.assert_array_equal(why.chosen, why.actions[np.arange(50), values.argmax(dim=1)])
        else:
            np.testing.assert_array_equal(why.chosen, values.argmax(dim=1))
        np.testing.assert_array_equal(agent.predict(obs.numpy())[0], why.chosen)

    assert_best()  # before anything is learned
    agent.learn(40, callback=lambda *_: assert_best() is None)
    scramble_all(agent)
    agent.policy.tick()
    assert_best()
    assert (all_values(agent, obs).argmax(dim=1) != all_values(agent, obs, agent.critic_target).argmax(dim=1)).any()
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    np.testing.assert_array_equal(loaded.predict(obs.numpy())[0], agent.predict(obs.numpy())[0])
    agent.policy.to("cpu")  # another device would need other keys
    assert agent.policy._target_search == []
    assert_best()


def test_who_predicts_is_checked():
    with pytest.raises(ValueError, match="predict_by='average': give one of 'critic', 'target'"):
        tower_agent(policy_kwargs={"predict_by": "average"})


def test_a_copy_searches_its_own_table(monkeypatch):
    monkeypatch.setattr(module, "INDEXED", 200)
    agent = fresh(tower_agent(k=1))
    obs = states(50).numpy()
    agent.actions.add(VECTORS[:1] + 1)
    chosen = agent.predict(obs)[0]
    agent.actions.remove(np.unique(chosen)[:1])
    twin = copy.deepcopy(agent.policy)
    assert not np.isin(twin.predict(obs)[0], np.unique(chosen)[:1]).any()


def test_k_may_change_and_be_more_than_there_are():
    actions = ActionTable(VECTORS[:20])
    agent = fresh(tower_agent(TargetEnv(actions, length=5), k=2, candidates="both"))
    agent.k = 15
    obs = states()
    assert agent.explain(obs.numpy()).actions.shape == (7, 30)
    actions.remove(np.arange(10))
    np.testing.assert_array_equal(agent.predict(obs.numpy())[0], 10 + all_values(agent, obs)[:, 10:].argmax(dim=1))


def test_the_copy_of_the_critic_does_not_train():
    agent = tower_agent(k=4, policy_kwargs={"refresh_every": 7, "features_extractor_class": NormalisedExtractor})
    agent.learn(40)
    agent.predict(states(1).numpy())  # which a layer in training refuses
    agent.predict(100 * states(50).numpy())  # which would move its statistics
    copied, own = (critic.features_extractor.norm for critic in (agent.policy.search.critic, agent.critic))
    torch.testing.assert_close(copied.running_mean, own.running_mean, rtol=0, atol=0)
    assert own.running_mean.abs().max() > 0


@pytest.mark.parametrize(("first", "then"), [("critic", "nearest"), ("nearest", "critic")])
def test_an_agent_is_loaded_with_candidates_of_another_kind(tmp_path, first, then):
    agent = fresh(tower_agent(k=1, candidates=first, exploration=greedy(epsilon=0.2)))
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", candidates=then)
    obs = states()
    chosen = loaded.predict(obs.numpy())[0]
    if then == "critic":
        np.testing.assert_array_equal(chosen, all_values(agent, obs).argmax(dim=1))
    else:
        np.testing.assert_array_equal(chosen, agent.actions.nearest(agent.actor(obs).detach().numpy(), 1)[:, 0])


def test_without_epsilon_the_critics_candidates_are_not_explored():
    with pytest.warns(UserWarning, match="nothing is explored"):
        tower_agent(exploration=greedy())
    assert tower_agent().exploration.epsilon > 0


WRONG = {
    "keys of nothing": ({"critic": "two-tower", "policy_kwargs": {"refresh_every": 5}}, "is for candidates="),
    "an unknown critic": ({"critic": "linear"}, "critic='linear': give one of 'mlp', 'two-tower'"),
    "unknown candidates": ({"critic": "two-tower", "candidates": "best"}, "give one of 'nearest', 'critic', 'both'"),
    "an MLP cannot search": ({"candidates": "both"}, 'give critic="two-tower"'),
    "nothing to screen": ({"critic": "two-tower", "rerank": "screened"}, "leave rerank out"),
    "twice": ({"policy_kwargs": {"critic": "two-tower"}}, "give it to Wolpertinger itself"),
    "never": ({"critic": "two-tower", "candidates": "critic", "policy_kwargs": {"refresh_every": 0}}, "at least 1"),
    "an MLP has no towers": ({"policy_kwargs": {"tower_kwargs": {"width": 8}}}, 'are for critic="two-tower"'),
    "no width": ({"critic": "two-tower", "policy_kwargs": {"tower_kwargs": {"width": 0}}}, "at least 1"),
    "rows below 0": ({"critic": "two-tower", "policy_kwargs": {"tower_kwargs": {"state_memory": -1}}}, "give rows"),
    "rows by name": ({"critic": "two-tower", "policy_kwargs": {"tower_kwargs": {"action_memory": "x"}}}, "give rows"),
    "a memory of what is learned": (
        {"critic": "two-tower", "policy_kwargs": {"state_arch": [8], "tower_kwargs": {"state_memory": 9}}},
        "leave out state_arch",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_settings_are_refused(what):
    settings, message = WRONG[what]
    with pytest.raises(ValueError, match=message):
        small_agent(**settings)


def test_sets_that_are_never_listed_are_refused_but_nearest_works():
    huge = ActionProduct([np.linspace(-1, 1, 2)] * 100)
    env = TargetEnv(huge, length=5)
    with pytest.raises(ValueError, match="too large to go through"):
        small_agent(env, critic="two-tower", candidates="critic")
    agent = small_agent(env, critic="two-tower", k=4)
    agent.learn(40)
    assert huge.space.contains(agent.predict(env.reset(seed=0)[0])[0])
    with pytest.raises(ValueError, match="too large to go through"):
        agent.action_vectors()
    with pytest.raises(ValueError, match='critic="two-tower"'):
        small_agent().action_vectors()
