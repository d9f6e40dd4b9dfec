"""Algorithm 1 against loops, for every kind of action set."""

import numpy as np
import pytest
import torch
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

from wolpertinger import ActionProduct, ActionTable, Exploration
from wolpertinger.agent import policy

from .envs import TargetEnv, all_actions, best_of, scramble_all, small_agent, value

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
    agent = small_agent(TargetEnv(actions), k=1, policy_kwargs={"net_arch": [16, 16], "n_critics": 2})
    scramble_all(agent)
    return agent


@pytest.fixture
def obs():
    return torch.as_tensor(np.random.default_rng(1).uniform(-1, 1, (BATCH, 3)).astype(np.float32))


@pytest.fixture
def proto(actions):
    return torch.as_tensor(np.random.default_rng(2).uniform(actions.low, actions.high, (BATCH, 3)).astype(np.float32))


@pytest.mark.parametrize("k", [2, 9])
def test_choose_equals_a_loop_over_states_and_candidates(agent, actions, obs, proto, k):
    agent.k = k
    choice = agent.policy.choose(obs, proto, agent.critic)
    for i in range(BATCH):
        candidates = actions.nearest(proto[i : i + 1].numpy(), k)[0]
        best, best_q = best_of(agent.critic, obs[i], actions, candidates)
        np.testing.assert_array_equal(choice.action[i], best)
        np.testing.assert_array_equal(choice.vector[i], actions.embed(best))
        assert choice.value[i].item() == pytest.approx(best_q, rel=1e-4, abs=1e-5)
        values = [value(agent.critic, obs[i], actions.embed(candidate)) for candidate in candidates]
        assert choice.mean[i].item() == pytest.approx(np.mean(values), rel=1e-4, abs=1e-5)
        assert choice.is_nearest[i].item() == np.array_equal(best, candidates[0])
    assert not choice.is_nearest.all()  # else the critic had no say


def test_one_candidate_is_the_nearest_action(agent, actions, obs, proto):
    chosen = agent.policy.choose(obs, proto, agent.critic).action
    vectors = actions.embed(all_actions(actions))
    for i in range(BATCH):
        nearest = np.argmin(((vectors - proto[i].numpy()) ** 2).sum(axis=1))
        np.testing.assert_array_equal(chosen[i], all_actions(actions)[nearest])


def test_of_one_candidate_nobody_asks_the_critic_to_act(agent, obs, proto, monkeypatch):
    chosen = agent.policy.choose(obs, proto, agent.critic)
    monkeypatch.setattr(agent.critic, "features", lambda obs: pytest.fail("the critic was asked"))
    picked = agent.policy.act(obs, proto, agent.critic)
    for ours, theirs in ((picked.action, chosen.action), (picked.proto, proto)):
        np.testing.assert_array_equal(ours, theirs)
    monkeypatch.setattr(agent.policy, "propose", lambda actor, obs: proto)
    np.testing.assert_array_equal(agent.predict(obs.numpy(), deterministic=True)[0], chosen.action)
    assert len(agent.policy.act(obs[:0], proto[:0], agent.critic).action) == 0


def test_of_one_candidate_each_the_critic_picks(obs):
    """candidates="both" has two at k = 1: the nearest, and the one that the critic finds."""
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=1, critic="two-tower", candidates="both")
    scramble_all(agent)
    agent.policy.refresh()
    proto = torch.as_tensor(VECTORS[:BATCH])
    picked, chosen = (ask(obs, proto, agent.critic) for ask in (agent.policy.act, agent.policy.choose))
    np.testing.assert_array_equal(picked.action, chosen.action)
    assert picked.k == 2


def test_of_several_candidates_the_critic_picks_the_action(agent, obs, proto):
    agent.k = 9
    picked, chosen = (ask(obs, proto, agent.critic) for ask in (agent.policy.act, agent.policy.choose))
    np.testing.assert_array_equal(picked.action, chosen.action)


def test_all_candidates_give_the_greedy_action_over_all_of_a(agent, actions, obs, proto):
    agent.k = actions.n
    chosen = agent.policy.choose(obs, proto, agent.critic).action
    for i in range(BATCH):
        best, _ = best_of(agent.critic, obs[i], actions, all_actions(actions))
        np.testing.assert_array_equal(chosen[i], best)


def test_predict_is_choose_at_the_actors_proto_action(agent, actions, obs):
    agent.k = 9
    chosen, state = agent.predict(obs.numpy(), deterministic=True)
    assert state is None
    for i in range(BATCH):
        candidates = actions.nearest(agent.actor(obs[i : i + 1]).detach().numpy(), 9)[0]
        np.testing.assert_array_equal(chosen[i], best_of(agent.critic, obs[i], actions, candidates)[0])
        assert chosen[i] in actions.space
    one, _ = agent.predict(obs[0].numpy())
    np.testing.assert_array_equal(one, chosen[0])


def test_explain_says_what_predict_saw(agent, actions, obs):
    agent.k = 9
    why = agent.explain(obs.numpy())
    chosen, _ = agent.predict(obs.numpy(), deterministic=True)
    np.testing.assert_array_equal(why.chosen, chosen)
    assert (why.proto.shape, why.distances.shape, why.q.shape) == ((BATCH, 3), (BATCH, 9), (BATCH, 9))
    np.testing.assert_allclose(why.proto, agent.actor(obs).detach().numpy(), rtol=1e-6)
    for i in range(BATCH):
        np.testing.assert_array_equal(why.chosen[i], why.actions[i, why.q[i].argmax()])
        vectors = actions.embed(why.actions[i])
        np.testing.assert_allclose(why.distances[i], np.linalg.norm(vectors - why.proto[i], axis=1), rtol=1e-5)
        np.testing.assert_allclose(why.q[i], [value(agent.critic, obs[i], v) for v in vectors], rtol=1e-3, atol=1e-5)
    assert (np.diff(why.distances, axis=1) >= -1e-5).all()

    one = agent.explain(obs[3].numpy())
    assert (one.proto.shape, one.distances.shape, one.q.shape) == ((3,), (9,), (9,))
    np.testing.assert_array_equal(one.actions, why.actions[3])
    np.testing.assert_array_equal(one.chosen, why.chosen[3])
    np.testing.assert_allclose(one.q, why.q[3], rtol=1e-4, atol=1e-5)


def test_nothing_is_learned_through_choose(agent, obs, proto):
    assert not agent.policy.choose(obs, proto.requires_grad_(), agent.critic).value.requires_grad


def test_targets_start_as_copies_that_no_optimiser_touches():
    agent = small_agent()
    for network, target in ((agent.actor, agent.actor_target), (agent.critic, agent.critic_target)):
        pairs = list(zip(network.parameters(), target.parameters(), strict=True))
        assert all(torch.equal(own, copy) and own is not copy for own, copy in pairs)
        assert not any(copy.requires_grad for _, copy in pairs)


@pytest.mark.parametrize("bound", ["tanh", "inverted gradients"])
def test_targets_answer_as_their_networks_do(bound, obs):
    policy_kwargs = {"net_arch": [16, 16], "bound": bound, "layer_norm": True, "interaction": True, "n_critics": 2}
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), policy_kwargs=policy_kwargs)
    scramble_all(agent)
    agent.actor_target.load_state_dict(agent.actor.state_dict())
    agent.critic_target.load_state_dict(agent.critic.state_dict())
    vectors = torch.as_tensor(VECTORS[:BATCH])
    assert torch.equal(agent.actor_target(obs), agent.actor(obs))
    assert torch.equal(agent.critic_target(obs, vectors), agent.critic(obs, vectors))


def test_training_mode_reaches_the_networks_but_not_their_targets():
    agent = small_agent()
    networks = (agent.actor, agent.critic, agent.actor_target, agent.critic_target)
    agent.policy.set_training_mode(True)
    assert [network.training for network in networks] == [True, True, False, False]
    agent.explain(np.zeros(2, np.float32))
    assert not any(network.training for network in networks)


class FrozenNorm(nn.BatchNorm1d):
    """Keeps its statistics, whatever the mode."""

    def train(self, mode=True):
        return super().train(False)


class ModalExtractor(FlattenExtractor):
    def __init__(self, observation_space):
        super().__init__(observation_space)
        self.parts = nn.Sequential(FrozenNorm(self.features_dim), nn.Dropout(0.5))

    def forward(self, observations):
        return self.parts(super().forward(observations))


def test_every_module_has_the_mode_of_what_is_being_done(monkeypatch):
    agent = small_agent(policy_kwargs={"net_arch": [8], "features_extractor_class": ModalExtractor})
    seen = {"act": set(), "train": set()}

    def note(during, work):
        def noted(*args, **kwargs):
            modules = (*agent.actor.modules(), *agent.critic.modules())
            seen[during] |= {module.training for module in modules if not isinstance(module, FrozenNorm)}
            assert not any(module.training for module in modules if isinstance(module, FrozenNorm))
            return work(*args, **kwargs)

        return noted

    monkeypatch.setattr(agent, "_explore_near_policy", note("act", agent._explore_near_policy))
    monkeypatch.setattr(agent, "_train_once", note("train", agent._train_once))
    agent.learn(40)
    assert seen == {"act": {False}, "train": {True}}
    agent.predict(np.zeros(2, np.float32))
    assert not any(module.training for module in agent.actor.modules())


def test_a_policy_is_not_saved_alone(tmp_path):
    with pytest.raises(TypeError, match=r"use agent\.save\(path\)"):
        small_agent().policy.save(tmp_path / "policy.pth")


@pytest.mark.parametrize("net_arch", [[], {"pi": [], "qf": [8]}])
def test_a_network_without_hidden_layers_is_refused(net_arch):
    with pytest.raises(ValueError, match=r"net_arch=.*at least one hidden layer"):
        small_agent(policy_kwargs={"net_arch": net_arch})


def test_actor_and_critic_may_have_different_sizes():
    agent = small_agent(policy_kwargs={"net_arch": {"pi": [4], "qf": [6, 5]}})
    assert agent.actor.mu[0].out_features == 4
    assert agent.critic.q_networks[0].state.out_features == 6


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


@pytest.mark.parametrize("at_once", [1, 50, 100_000])
def test_with_k_as_large_as_the_set_the_best_of_all_actions_is_chosen(agent, actions, obs, proto, monkeypatch, at_once):
    monkeypatch.setattr(policy, "CANDIDATES_AT_ONCE", at_once)
    monkeypatch.setattr(type(actions), "nearest", None)  # there is nothing to look up
    agent.k = 1.0
    choice = agent.policy.choose(obs, proto, agent.critic)
    for i in range(BATCH):
        best, best_q = best_of(agent.critic, obs[i], actions, all_actions(actions))
        np.testing.assert_array_equal(choice.action[i], best)
        np.testing.assert_array_equal(choice.vector[i], actions.embed(best))
        assert choice.value[i].item() == pytest.approx(best_q, rel=1e-4, abs=1e-5)
        values = [value(agent.critic, obs[i], actions.embed(action)) for action in all_actions(actions)]
        assert choice.mean[i].item() == pytest.approx(np.mean(values), rel=1e-4, abs=1e-5)
    assert choice.k == actions.n
    assert choice.is_nearest is None


@pytest.mark.parametrize("at_once", [1, 20, 30])
def test_a_batch_whose_candidates_do_not_fit_is_looked_up_in_parts(agent, obs, proto, monkeypatch, at_once):
    agent.k = 9
    whole = agent.policy.choose(obs, proto, agent.critic)
    monkeypatch.setattr(policy, "CANDIDATES_AT_ONCE", at_once)
    parts = agent.policy.choose(obs, proto, agent.critic)
    np.testing.assert_array_equal(parts.action, whole.action)
    torch.testing.assert_close(parts.value, whole.value)
    torch.testing.assert_close(parts.is_nearest, whole.is_nearest)
    assert parts.k == whole.k == 9


def test_removed_actions_are_not_among_all_actions():
    table = ActionTable(VECTORS)
    agent = small_agent(TargetEnv(table), k=1.0, policy_kwargs={"net_arch": [16, 16]})
    scramble_all(agent)
    obs, proto = torch.zeros(1, 3), torch.zeros(1, 3)
    best = agent.policy.choose(obs, proto, agent.critic).action
    table.remove(best.numpy())
    assert agent.policy.choose(obs, proto, agent.critic).action != best


def test_the_candidates_of_one_state_come_in_parts_when_they_are_very_many(agent, obs, proto, monkeypatch):
    agent.k = 100
    whole = agent.policy.choose(obs, proto, agent.critic)
    monkeypatch.setattr(policy, "CANDIDATES_AT_ONCE", 30)
    parts = agent.policy.choose(obs, proto, agent.critic)
    np.testing.assert_array_equal(parts.action, whole.action)
    torch.testing.assert_close(parts.is_nearest, whole.is_nearest)
    torch.testing.assert_close(parts.mean, whole.mean, rtol=1e-4, atol=1e-5)
    assert parts.k == whole.k == 100


@pytest.mark.parametrize("k", [2, 120])
def test_a_batch_of_no_states(agent, k):
    agent.k = k
    choice = agent.policy.choose(torch.zeros(0, 3), torch.zeros(0, 3), agent.critic)
    assert len(choice.action) == len(choice.value) == 0
