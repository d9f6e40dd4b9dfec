"""Values of many actions per state, against the critic itself."""

import numpy as np
import pytest
import torch
from torch import nn
from wolpertinger.agent.rerank import Packed, Values, exact, networks_in, pack, rank

from wolpertinger import ActionTable
from wolpertinger.agent import rerank
from wolpertinger.threads import using_threads

from .envs import CRITICS, TargetEnv, scramble_all, small_agent

STATES, K = 5, 23
VECTORS = np.random.default_rng(0).uniform([90, -3, 7], [300, -1, 7], size=(STATES, K, 3)).astype(np.float32)


@pytest.fixture(params=CRITICS)
def critic(request):
    env = TargetEnv(ActionTable(VECTORS.reshape(-1, 3)))
    agent = small_agent(env, k=2, policy_kwargs={"net_arch": [16, 16], **CRITICS[request.param]})
    scramble_all(agent)
    return agent.critic


@pytest.fixture(params=["as it is", "laid out for many"], autouse=True)
def layout(request, monkeypatch):
    if request.param == "laid out for many":
        for name in ("PACKED", "MANY_EACH", "MANY"):
            monkeypatch.setattr(rerank, name, 2)


@pytest.fixture(params=[1, 3], autouse=True)
def threads(request):
    with using_threads(request.param):
        yield


@pytest.fixture
def obs():
    return torch.randn(STATES, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("k", [1, 2, rerank.FEW, rerank.FEW + 1, K])
@pytest.mark.parametrize("block", [1, 7, 16, 60, 1000])
@torch.no_grad()
def test_ranking_in_blocks_is_the_least_of_the_critics_values(critic, obs, monkeypatch, block, k):
    monkeypatch.setattr(rerank, "BLOCK", block)
    vectors = torch.as_tensor(VECTORS[:, :k])
    expected = critic(obs, vectors).amin(dim=0)
    torch.testing.assert_close(rank(critic, critic.features(obs), vectors), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block", [1, 7, 1000])
@torch.no_grad()
def test_actions_that_states_share_are_valued_as_if_each_state_had_its_own(critic, obs, monkeypatch, block):
    monkeypatch.setattr(rerank, "BLOCK", block)
    shared = torch.as_tensor(VECTORS[0])
    expected = critic(obs, shared.expand(STATES, -1, -1)).amin(dim=0)
    torch.testing.assert_close(rank(critic, critic.features(obs), shared), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block", [2, 1000])
@torch.no_grad()
def test_pairs_of_states_and_actions_in_any_order(critic, obs, monkeypatch, block):
    monkeypatch.setattr(rerank, "BLOCK", block)
    states, places = torch.tensor([3, 0, 3, 4, 1, 1]), torch.tensor([2, 22, 2, 0, 9, 8])
    vectors, features = torch.as_tensor(VECTORS), critic.features(obs)
    found = Values(networks_in(critic, features), features)(vectors[states, places].unsqueeze(1), states).squeeze(1)
    expected = critic(obs, vectors).amin(dim=0)[states, places]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_best_is_the_largest_value_and_the_nearest_of_equals(critic, obs):
    vectors = torch.as_tensor(VECTORS).clone()
    vectors[:, 1::2] = vectors[:, 0:-1:2]  # every action twice, side by side
    values = critic(obs, vectors).amin(dim=0)
    best = exact(critic, critic.features(obs), vectors)
    assert (best.place % 2 == 0).all()
    torch.testing.assert_close(best.value, values.amax(dim=1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(best.mean, values.mean(dim=1), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_callers_vectors_and_features_stay_as_they_were(critic, obs):
    vectors, features = torch.as_tensor(VECTORS).clone(), critic.features(obs)
    before = features.clone()
    exact(critic, features, vectors)
    torch.testing.assert_close(vectors, torch.as_tensor(VECTORS), rtol=0, atol=0)
    torch.testing.assert_close(features, before, rtol=0, atol=0)


@torch.no_grad()
def test_wide_layers_are_packed_where_torch_can(critic, monkeypatch):
    rest = critic.networks[0].rest
    wide = sum(isinstance(layer, nn.Linear) and layer.out_features > 1 for layer in rest)
    assert [type(layer) for layer in pack(rest)].count(Packed) == (wide if rerank._has_onednn() else 0)
    assert pack(rest.double()) == list(rest)
    rest.float()
    monkeypatch.setattr(rerank, "_has_onednn", lambda: False)
    assert pack(rest) == list(rest)


@torch.no_grad()
def test_what_is_no_number_stays_none(critic, obs):
    """A critic that has diverged must not look healthy."""
    first = next(layer for layer in critic.networks[0].rest if isinstance(layer, nn.Linear))
    first.weight[0, 0] = torch.nan
    vectors = torch.as_tensor(VECTORS)
    assert rank(critic, critic.features(obs), vectors).isnan().all()


def test_in_inference_mode_and_after_it(critic, obs, monkeypatch):
    monkeypatch.setattr(rerank, "SMALLEST", 10)
    vectors = torch.as_tensor(VECTORS)
    with torch.no_grad():
        expected = rank(critic, critic.features(obs), vectors)
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
        with mode():
            found = [rank(critic, critic.features(obs), vectors) for _ in range(5)]
        for each in found:
            torch.testing.assert_close(each, expected, rtol=1e-4, atol=1e-5)
            assert not each.requires_grad


@pytest.mark.parametrize("outcome", ["zeros", "no such product"])
def test_products_that_come_out_wrong_are_not_used(outcome, monkeypatch):
    def wrong(self, x):
        if outcome == "zeros":
            return torch.zeros(2, 2)
        raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_linear_pointwise'")

    monkeypatch.setattr(Packed, "__call__", wrong)
    assert not rerank._has_onednn.__wrapped__()


def test_this_machine_has_such_products():
    """Or nobody would notice that torch calls them otherwise."""
    assert rerank._has_onednn() or not torch.backends.mkldnn.is_available()
