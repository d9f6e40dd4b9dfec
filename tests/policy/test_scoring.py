"""Values of many actions per state, against the critic itself."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.agent.envs import CRITICS, TargetEnv, scramble_all, small_agent, with_critic
from wolpertinger import ActionTable, TwoTower
from wolpertinger.networks import mlp
from wolpertinger.networks.mlp import FEW_CANDIDATES, MLPValues
from wolpertinger.policy.scoring import Values, evaluate, score_exactly
from wolpertinger.threads import using_threads

STATES, K = 5, 23
VECTORS = np.random.default_rng(0).uniform([90, -3, 7], [300, -1, 7], size=(STATES, K, 3)).astype(np.float32)
COUNTS = (1, 2, FEW_CANDIDATES, FEW_CANDIDATES + 1, K)
TOWERS = {
    "two towers": {"critic": TwoTower(width=5, state_embedding=20, action_embedding=20)},
    "two towers, twice": {"critic": TwoTower(), "policy_kwargs": {"net_arch": [16], "n_critics": 2}},
}


def make_critic(name):
    settings = TOWERS[name] if name in TOWERS else with_critic(name, net_arch=[16, 16])
    agent = small_agent(TargetEnv(ActionTable(VECTORS.reshape(-1, 3))), k=2, **settings)
    scramble_all(agent)
    return agent.critic


@pytest.fixture(params=[*CRITICS, *TOWERS], scope="module")
def critic(request):
    return make_critic(request.param)


@pytest.fixture(params=["as it is", "as for many"], autouse=True)
def size(request, monkeypatch):
    if request.param == "as for many":
        monkeypatch.setattr(mlp, "PER_STATE_PRODUCTS", 2)
        monkeypatch.setattr(MLPValues, "shared_from", 2)


@pytest.fixture(params=[1, 3], autouse=True)
def threads(request):
    with using_threads(request.param):
        yield


@pytest.fixture
def obs():
    return torch.randn(STATES, 3, generator=torch.Generator().manual_seed(0))


def values_in(critic, obs, block):
    features = critic.features(obs)
    return Values([network.in_states(features, critic.scale) for network in critic.networks], features, block)


@torch.no_grad()
def test_the_value_is_the_least_of_the_critics_values(critic, obs):
    for k in COUNTS:
        vectors = torch.as_tensor(VECTORS[:, :k])
        expected = critic(obs, vectors).amin(dim=0)
        torch.testing.assert_close(evaluate(critic, critic.features(obs), vectors), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block", [1, 7, 16, 60, 1000])
@torch.no_grad()
def test_values_do_not_depend_on_the_blocks(critic, obs, block):
    for k in COUNTS:
        vectors = torch.as_tensor(VECTORS[:, :k])
        expected = critic(obs, vectors).amin(dim=0)
        torch.testing.assert_close(values_in(critic, obs, block)(vectors), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block", [1, 7, 1000])
@torch.no_grad()
def test_actions_that_states_share_are_valued_as_if_each_state_had_its_own(critic, obs, block):
    shared = torch.as_tensor(VECTORS[0])
    expected = critic(obs, shared.expand(STATES, -1, -1)).amin(dim=0)
    torch.testing.assert_close(evaluate(critic, critic.features(obs), shared), expected, rtol=1e-4, atol=1e-5)
    values = values_in(critic, obs, block)
    torch.testing.assert_close(values(shared), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(values.of_shared(shared), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block", [2, 1000])
@torch.no_grad()
def test_pairs_of_states_and_actions_in_any_order(critic, obs, block):
    states, places = torch.tensor([3, 0, 3, 4, 1, 1]), torch.tensor([2, 22, 2, 0, 9, 8])
    vectors = torch.as_tensor(VECTORS)
    found = values_in(critic, obs, block).of_each(vectors[states, places].unsqueeze(1), states).squeeze(1)
    expected = critic(obs, vectors).amin(dim=0)[states, places]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_scores_are_the_values_and_their_mean_and_equal_actions_score_alike(critic, obs):
    vectors = torch.as_tensor(VECTORS).clone()
    vectors[:, 1::2] = vectors[:, 0:-1:2]  # every action twice, side by side
    values = critic(obs, vectors).amin(dim=0)
    scores = score_exactly(critic, critic.features(obs), vectors)
    assert (scores.values.argmax(dim=1) % 2 == 0).all()  # the first of equals
    torch.testing.assert_close(scores.values, values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(scores.mean, values.mean(dim=1), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_callers_vectors_and_features_stay_as_they_were(critic, obs):
    vectors, features = torch.as_tensor(VECTORS).clone(), critic.features(obs)
    before = features.clone()
    score_exactly(critic, features, vectors)
    torch.testing.assert_close(vectors, torch.as_tensor(VECTORS), rtol=0, atol=0)
    torch.testing.assert_close(features, before, rtol=0, atol=0)


@pytest.mark.parametrize("name", CRITICS)
@torch.no_grad()
def test_what_is_no_number_stays_none(name, obs):
    """A critic that has diverged must not look healthy."""
    critic = make_critic(name)
    first = next(layer for layer in critic.networks[0].rest if isinstance(layer, nn.Linear))
    first.weight[0, 0] = torch.nan
    assert evaluate(critic, critic.features(obs), torch.as_tensor(VECTORS)).isnan().all()


def test_in_inference_mode_and_after_it(critic, obs):
    vectors = torch.as_tensor(VECTORS)
    with torch.no_grad():
        expected = evaluate(critic, critic.features(obs), vectors)
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
        with mode():
            found = [evaluate(critic, critic.features(obs), vectors) for _ in range(5)]
        for each in found:
            torch.testing.assert_close(each, expected, rtol=1e-4, atol=1e-5)
            assert not each.requires_grad


@torch.no_grad()
def test_values_are_in_the_critics_own_precision_under_autocast(critic, obs):
    vectors, features = torch.as_tensor(VECTORS), critic.features(obs)
    expected = evaluate(critic, features, vectors)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(evaluate(critic, features, vectors), expected, rtol=0, atol=0)
