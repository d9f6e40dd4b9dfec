"""The policy as Stable-Baselines3 knows it: networks, their targets, their modes."""

import numpy as np
import pytest
import torch
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

from wolpertinger import MLP, ActionTable, Exploration
from wolpertinger.agent.policies import WolpertingerPolicy
from wolpertinger.policy import Policy

from .envs import TargetEnv, scramble_all, small_agent

VECTORS = np.random.default_rng(5).uniform([-2, 0, 10], [2, 1, 30], size=(120, 3)).astype(np.float32)


def test_targets_start_as_copies_that_no_optimiser_touches():
    agent = small_agent()
    for network, target in ((agent.actor, agent.actor_target), (agent.critic, agent.critic_target)):
        pairs = list(zip(network.parameters(), target.parameters(), strict=True))
        assert all(torch.equal(own, copy) and own is not copy for own, copy in pairs)
        assert not any(copy.requires_grad for _, copy in pairs)


@pytest.mark.parametrize("bound", ["tanh", "inverted gradients"])
def test_targets_answer_as_their_networks_do(bound):
    policy_kwargs = {"net_arch": [16, 16], "bound": bound, "layer_norm": True, "n_critics": 2}
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), critic=MLP(interaction=True), policy_kwargs=policy_kwargs)
    scramble_all(agent)
    agent.actor_target.load_state_dict(agent.actor.state_dict())
    agent.critic_target.load_state_dict(agent.critic.state_dict())
    obs, vectors = torch.randn(7, 3), torch.as_tensor(VECTORS[:7])
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
    monkeypatch.setattr(agent.learner, "update", note("train", agent.learner.update))
    agent.learn(40)
    assert seen == {"act": {False}, "train": {True}}
    agent.predict(np.zeros(2, np.float32))
    assert not any(module.training for module in agent.actor.modules())


@pytest.mark.parametrize("net_arch", [[], {"pi": [], "qf": [8]}])
def test_a_network_without_hidden_layers_is_refused(net_arch):
    with pytest.raises(ValueError, match=r"net_arch=.*at least one hidden layer"):
        small_agent(policy_kwargs={"net_arch": net_arch})


def test_actor_and_critic_may_have_different_sizes():
    agent = small_agent(policy_kwargs={"net_arch": {"pi": [4], "qf": [6, 5]}})
    assert agent.actor.mu[0].out_features == 4
    assert agent.critic.q_networks[0].state.out_features == 6


def test_k_is_that_of_acting_and_of_predicting():
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=4)
    agent.k = 0.1
    assert agent.k == agent.policy.k == agent.policy.behaviour.k == agent.policy.predictor.k == 12


class Noting(Policy):
    """Notes by which critic it was asked to rank."""

    def rank(self, states, critic, top=1):
        vars(self).setdefault("asked_by", []).append(critic)
        return super().rank(states, critic, top)


class NotingPolicy(WolpertingerPolicy):
    policy_class = Noting


def test_acting_targets_predictions_and_explanations_are_calls_of_rank():
    """So a policy that ranks otherwise overrides one method."""
    agent = small_agent(
        TargetEnv(ActionTable(VECTORS), length=5),
        policy=NotingPolicy,
        k=9,
        learning_starts=20,
        exploration=Exploration(),
    )
    agent.learn(30)
    asked_by = agent.policy.behaviour.asked_by
    assert [asked_by.count(critic) for critic in (agent.critic, agent.critic_target)] == [10, agent._n_updates]
    for use in (agent.predict, agent.explain):
        agent.policy.predictor.asked_by = []
        use(np.zeros(3, np.float32))
        assert set(agent.policy.predictor.asked_by) == {agent.critic}
