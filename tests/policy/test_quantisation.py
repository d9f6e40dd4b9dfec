"""Layers in 8 bits against the layers themselves."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.agent.envs import CRITICS, TargetEnv, scramble_all, small_agent, with_critic
from wolpertinger import ActionTable
from wolpertinger.networks.layers import hidden_layers, last_layer
from wolpertinger.networks.mlp import through
from wolpertinger.policy import screening
from wolpertinger.policy.scoring import evaluate
from wolpertinger.policy.screening import (
    Quantised,
    QuantisedLinear,
    QuantisedNetwork,
    estimate,
    has_fast_products,
    quantise,
)
from wolpertinger.threads import using_threads

needs_instructions = pytest.mark.skipif(not has_fast_products(), reason="this machine has no 8-bit products")


@pytest.fixture
def another_machine(monkeypatch):
    """What is known of this one is forgotten, before and after."""
    has_fast_products.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    has_fast_products.cache_clear()


def network(activation_fn=nn.ReLU, layer_norm=False, net_arch=(40, 24)):
    torch.manual_seed(0)
    widths = [32, *net_arch]
    return nn.Sequential(*hidden_layers(32, widths[1:], activation_fn, layer_norm), last_layer(widths[-1], 1))


def inputs(*shape):
    return torch.randn(*shape, 32, generator=torch.Generator().manual_seed(1))


@needs_instructions
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("activation_fn", [nn.ReLU, nn.Tanh, nn.LeakyReLU, nn.Identity, nn.Softplus])
@torch.no_grad()
def test_layers_in_eight_bits_do_about_what_the_layers_do(activation_fn, layer_norm):
    rest, x = network(activation_fn, layer_norm), inputs(7, 50)
    expected = rest(x).squeeze(-1)
    found = through(quantise(rest), x.clone())
    assert found.shape == expected.shape == (7, 50)
    error = (found - expected).std() / expected.std()
    assert 0 < error < 0.05


@needs_instructions
@torch.no_grad()
def test_rounding_rectifies():
    layer, x = nn.Linear(32, 5), inputs(100)
    torch.testing.assert_close(QuantisedLinear(layer, rectify=True)(x.clone()), layer(x.relu()), rtol=0, atol=0.05)
    assert (layer(x) - layer(x.relu())).abs().max() > 0.5  # which is not what it would be otherwise


@needs_instructions
@pytest.mark.parametrize("shift", [-5.0, 5.0])
@torch.no_grad()
def test_activations_that_are_all_on_one_side_of_0(shift):
    layer, x = nn.Linear(32, 5), inputs(100) + shift
    torch.testing.assert_close(QuantisedLinear(layer)(x.clone()), layer(x), rtol=0, atol=0.1)


@needs_instructions
@pytest.mark.parametrize("value", [0.0, -1.0])
@torch.no_grad()
def test_units_that_are_all_off(value):
    layer, x = nn.Linear(32, 5), torch.full((3, 32), value)
    torch.testing.assert_close(QuantisedLinear(layer, rectify=True)(x), layer.bias.expand(3, -1))


@needs_instructions
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@torch.no_grad()
def test_what_is_no_number_stays_none(value):
    layer, x = nn.Linear(32, 5), inputs(3)
    x[1, 4] = value
    assert not QuantisedLinear(layer)(x)[1].isfinite().any()


@needs_instructions
@torch.no_grad()
def test_weights_of_0():
    layer, x = nn.Linear(32, 5), inputs(3)
    nn.init.zeros_(layer.weight)
    torch.testing.assert_close(QuantisedLinear(layer)(x), layer.bias.expand(3, -1))


def test_layers_without_a_wide_product_gain_nothing():
    assert not screening._fits(network(net_arch=()))
    assert screening._fits(network()) == has_fast_products()


def test_only_float32_on_a_cpu():
    assert not screening._fits(network().double())
    assert not screening._fits(network().to("meta"))


@pytest.mark.parametrize("name", screening.VNNI_PROBES)
def test_a_machine_without_the_instructions_is_told_by_torch(name, another_machine):
    for other in screening.VNNI_PROBES:
        another_machine.delattr(torch.cpu, other, raising=False)
    assert not has_fast_products()
    has_fast_products.cache_clear()
    another_machine.setattr(torch.cpu, name, lambda: False, raising=False)
    assert not has_fast_products()


@needs_instructions
def test_a_look_at_the_machine_draws_no_random_numbers(another_machine):
    before = torch.get_rng_state()
    assert has_fast_products()
    assert torch.equal(torch.get_rng_state(), before)


@needs_instructions
@pytest.mark.parametrize("outcome", ["zeros", "other rows", "error"])
def test_products_that_come_out_wrong_are_not_used(outcome, another_machine):
    product = screening.Weights.product

    def wrong(*args):
        if outcome == "error":
            raise TypeError("qlinear_pointwise() takes other arguments")
        found = product(*args)
        return found * 0 if outcome == "zeros" else found.flip(1)

    another_machine.setattr(screening.Weights, "product", wrong)
    assert not has_fast_products()


@needs_instructions
@pytest.mark.parametrize("size", [1e-30, 1e-37, 1e-44])
@torch.no_grad()
def test_activations_that_are_all_but_0(size):
    layer, x = nn.Linear(32, 5), inputs(3) * size
    torch.testing.assert_close(QuantisedLinear(layer)(x), layer.bias.expand(3, -1))


VECTORS = np.random.default_rng(0).uniform([90, -3, 7, 0], [300, -1, 7, 1], size=(9, 70, 4)).astype(np.float32)


@pytest.fixture(params=[name for name in CRITICS if name != "one layer"])  # which has no product to round
def critic(request):
    env = TargetEnv(ActionTable(VECTORS.reshape(-1, 4)))
    agent = small_agent(env, k=2, **with_critic(request.param, net_arch=[48, 40]))
    scramble_all(agent)
    return agent.critic


@pytest.fixture
def plain_critic():
    env = TargetEnv(ActionTable(VECTORS.reshape(-1, 4)))
    agent = small_agent(env, k=2, policy_kwargs={"net_arch": [48, 40]})
    scramble_all(agent)
    return agent.critic


@pytest.fixture
def features(critic):
    return critic.features(states()).detach()


def states():
    return torch.randn(len(VECTORS), 4, generator=torch.Generator().manual_seed(0))


@needs_instructions
@pytest.mark.parametrize("are_shared", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_estimates_are_about_the_values_of_any_critic(critic, features, are_shared, count, monkeypatch):
    monkeypatch.setattr(screening, "BLOCK", 100)  # several of them
    vectors = torch.as_tensor(VECTORS[0] if are_shared else VECTORS)
    with using_threads(count):
        found, expected = estimate(critic, features, vectors), evaluate(critic, features, vectors)
    assert found.shape == expected.shape == (9, 70)
    assert 0 < (found - expected).std() / expected.std(dim=1).mean() < 0.1
    assert not found.requires_grad


def test_networks_of_relus_without_interaction_take_rounded_actions(critic):
    is_plain = type(critic.networks[0].rest[0]) is nn.ReLU and critic.networks[0].state_factor is None
    assert all(QuantisedNetwork.takes(network) == is_plain for network in critic.networks)


@needs_instructions
@torch.no_grad()
def test_actions_that_are_all_the_same(plain_critic):
    features, vectors = plain_critic.features(states()), torch.as_tensor(VECTORS[:, :1]).expand(-1, 70, -1)
    expected = evaluate(plain_critic, features, vectors)
    torch.testing.assert_close(estimate(plain_critic, features, vectors), expected, rtol=0.05, atol=0.05)


@needs_instructions
@pytest.mark.parametrize("bias", [-1e6, float("nan"), float("inf")])
@torch.no_grad()
def test_first_layers_without_activations_to_round(plain_critic, bias):
    """All units off, or no numbers: the other way is taken, which knows of them."""
    plain_critic.networks[0].state.bias.fill_(bias)
    features, vectors = plain_critic.features(states()), torch.as_tensor(VECTORS)
    found, expected = estimate(plain_critic, features, vectors), evaluate(plain_critic, features, vectors)
    torch.testing.assert_close(found.isfinite(), expected.isfinite())
    torch.testing.assert_close(found.nan_to_num(), expected.nan_to_num(), rtol=0.05, atol=0.05)


def test_levels_stand_for_numbers():
    x = inputs(200) - 0.7
    levels = Quantised.of(x.clone())
    assert levels.x.dtype == torch.uint8
    assert (levels.x.min(), levels.x.max()) == (0, 255)
    torch.testing.assert_close((levels.x.float() - levels.zero) * levels.step, x, rtol=0, atol=0.51 * levels.step)


class InPlace(nn.LeakyReLU):
    def __init__(self):
        super().__init__(0.1, inplace=True)


@needs_instructions
@torch.no_grad()
def test_activations_that_work_in_place():
    env = TargetEnv(ActionTable(VECTORS.reshape(-1, 4)))
    agent = small_agent(env, k=2, policy_kwargs={"net_arch": [48, 40], "activation_fn": InPlace})
    scramble_all(agent)
    vectors, features = torch.as_tensor(VECTORS).clone(), agent.critic.features(states())
    expected = agent.critic(states(), vectors)[0]
    found = estimate(agent.critic, features, vectors)
    assert (found - expected).std() < 0.1 * expected.std()
    torch.testing.assert_close(vectors, torch.as_tensor(VECTORS), rtol=0, atol=0)
