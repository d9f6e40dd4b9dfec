"""Targets follow their networks, whatever was loaded into them and wherever they were moved."""

import copy

import pytest
import torch
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

from tests.agent.envs import TargetEnv, scramble_all, small_agent
from wolpertinger import TwoTower, Wolpertinger
from wolpertinger.networks import PolyakUpdate

PAIRS = ("actor", "critic")


class NormalisedExtractor(FlattenExtractor):
    def __init__(self, observation_space):
        super().__init__(observation_space)
        self.norm = nn.BatchNorm1d(self.features_dim)


NETWORKS = {"net_arch": [8], "features_extractor_class": NormalisedExtractor}


def as_it_is(agent, folder):
    return agent


def loaded(agent, folder):
    agent.save(folder / "agent")
    return Wolpertinger.load(folder / "agent", TargetEnv(), policy_kwargs=NETWORKS)


def with_parameters_set(agent, folder):
    agent.set_parameters(copy.deepcopy(agent.get_parameters()))
    return agent


def moved(agent, folder):
    agent.policy.to(torch.float64)  # as to another device: buffers become other tensors, parameters get other memory
    return agent


@pytest.mark.parametrize("change", [as_it_is, loaded, with_parameters_set, moved])
def test_parameters_follow_by_tau_and_statistics_are_copied(change, tmp_path):
    agent = small_agent(policy_kwargs=NETWORKS)
    scramble_all(agent)
    agent = change(agent, tmp_path)
    before = {name: copy.deepcopy(getattr(agent.policy, f"{name}_target")) for name in PAIRS}
    for name in PAIRS:
        getattr(agent.policy, name).features_extractor.norm.running_mean.fill_(7.0)
    agent.learner.polyak.step(0.25)
    for name in PAIRS:
        network, target = getattr(agent.policy, name), getattr(agent.policy, f"{name}_target")
        triples = zip(network.parameters(), before[name].parameters(), target.parameters(), strict=True)
        for own, old, new in triples:
            assert not torch.equal(own, old)
            torch.testing.assert_close(new, 0.25 * own + 0.75 * old)
        assert (target.features_extractor.norm.running_mean == 7).all()
        assert torch.equal(target.scale.radius, before[name].scale.radius)


def test_rows_of_an_embedding_follow_and_its_hash_stays():
    agent = small_agent(critic=TwoTower(state_embedding=30))
    scramble_all(agent)
    own, target = (critic.q_networks[0].state_tower.embedding for critic in (agent.critic, agent.critic_target))
    target.factors = target.factors + 1
    hashed, expected = target.factors.clone(), 0.25 * own.rows + 0.75 * target.rows
    PolyakUpdate((agent.critic, agent.critic_target)).step(0.25)
    torch.testing.assert_close(target.rows, expected)
    assert torch.equal(target.factors, hashed)
