"""Proto-actions stay in the box of the vectors, and what that does to gradients."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.agent.envs import TargetEnv, scramble_all, small_agent
from wolpertinger import ActionTable
from wolpertinger.networks.actor import InvertedGradients

VECTORS = np.array([[100.0, -3.0, 7.0], [300.0, -1.0, 7.0], [150.0, -2.0, 7.0], [120.0, -1.5, 7.0]])
VARIANTS = {
    "plain": {},
    "layer norm": {"layer_norm": True},
    "unit features": {"unit_features": True},
    "inverted gradients": {"bound": "inverted gradients"},
    "one layer": {"net_arch": [16]},
    "all": {"layer_norm": True, "bound": "inverted gradients"},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_protos_stay_in_the_box_of_the_vectors(variant):
    policy_kwargs = {"net_arch": [16, 16], **VARIANTS[variant]}
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=2, policy_kwargs=policy_kwargs)
    scramble_all(agent)
    protos = agent.actor(100 * torch.randn(200, 3)).detach().numpy()
    assert (protos >= VECTORS.min(axis=0) - 1e-3).all()
    assert (protos <= VECTORS.max(axis=0) + 1e-3).all()
    assert np.ptp(protos[:, 0]) > 50


def test_unit_features_bound_the_proto_action_of_any_state():
    plain, unit = (
        small_agent(TargetEnv(ActionTable(VECTORS)), k=2, policy_kwargs={"net_arch": [16, 16], "unit_features": flag})
        for flag in (False, True)
    )
    far = 1e6 * torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    assert plain.actor.unit(far).abs().max() > 0.99
    last = unit.actor.mu[-2]
    assert (unit.actor.unit(far).abs() <= (last.weight.norm(dim=1) + last.bias.abs()).tanh() + 1e-6).all()
    assert unit.actor.unit(far).abs().max() < 0.1


def test_protos_start_near_the_middle():
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=2)
    assert agent.actor.unit(torch.rand(50, 3)).abs().max() < 0.1


@torch.no_grad()
def test_the_distance_to_vectors_is_squared_per_dimension_in_units_of_the_box():
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=2)
    scramble_all(agent)
    obs, vectors = torch.randn(4, 3), torch.as_tensor(VECTORS, dtype=torch.float32)
    radius = np.array([100.0, 1.0, 1.0])  # of the box; its last dimension has no width
    differences = (agent.actor.unit(obs).numpy() - (VECTORS - [200.0, -2.0, 7.0]) / radius) ** 2
    expected = differences.sum(axis=1).mean()
    assert agent.actor.distance(obs, vectors).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("wanted", [-1.0, 1.0])
def test_inverted_gradients_shrink_towards_a_bound_and_turn_round_beyond(wanted):
    x = torch.tensor([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5], requires_grad=True)
    y = InvertedGradients()(x)
    assert y.tolist() == [-1.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.0]
    (-wanted * y).sum().backward()  # descent moves x in the wanted direction ...
    room = (1 - x.detach()) / 2 if wanted > 0 else (1 + x.detach()) / 2  # ... as far as there is room
    assert torch.allclose(-x.grad, wanted * room)


def test_an_actor_leaves_a_bound_as_fast_as_it_came_only_with_inverted_gradients():
    def steps_to_return(bound):
        x = torch.tensor([6.0 if isinstance(bound, nn.Tanh) else 1.0], requires_grad=True)  # both at the upper bound
        optimizer = torch.optim.SGD([x], lr=0.1)
        for step in range(1, 1_000):
            optimizer.zero_grad()
            bound(x).sum().backward()
            optimizer.step()
            if bound(x).item() < 0:
                return step
        return step

    assert steps_to_return(InvertedGradients()) < 50
    assert steps_to_return(nn.Tanh()) == 999


def test_an_unknown_bound_is_named():
    with pytest.raises(ValueError, match="bound='sigmoid': give one of 'tanh', 'inverted gradients'"):
        small_agent(TargetEnv(), policy_kwargs={"bound": "sigmoid"})
