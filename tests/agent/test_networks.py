"""The split first layer, the scaling, the variants of the critic."""

import numpy as np
import pytest
import torch
from torch import nn
from wolpertinger.agent.networks import InvertedGradients, VectorScale

from wolpertinger import ActionTable

from .envs import TargetEnv, scramble_all, small_agent

VECTORS = np.array([[100.0, -3.0, 7.0], [300.0, -1.0, 7.0], [150.0, -2.0, 7.0], [120.0, -1.5, 7.0]])
VARIANTS = {
    "plain": {},
    "layer norm": {"layer_norm": True},
    "interaction": {"interaction": True},
    "twins": {"n_critics": 2},
    "state layers": {"state_arch": [12, 8], "layer_norm": True, "n_critics": 2},
    "all": {"layer_norm": True, "interaction": True, "n_critics": 3},
}


@pytest.fixture(params=VARIANTS)
def agent(request):
    policy_kwargs = {"net_arch": [16, 16], **VARIANTS[request.param]}
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=2, policy_kwargs=policy_kwargs)
    scramble_all(agent)
    return agent


def test_many_candidates_are_valued_as_if_each_came_alone(agent):
    obs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    vectors = torch.as_tensor(VECTORS, dtype=torch.float32).repeat(5, 1, 1)
    vectors = vectors + torch.arange(5).view(5, 1, 1)  # every state has candidates of its own
    together = agent.critic(obs, vectors)
    assert together.shape == (len(agent.critic.q_networks), 5, 4)
    for i in range(5):
        for j in range(4):
            alone = agent.critic(obs[i : i + 1], vectors[i, j][None])
            torch.testing.assert_close(together[:, i, j], alone[:, 0], rtol=1e-4, atol=1e-5)


def test_the_first_layer_is_one_layer_over_state_and_action_side_by_side():
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=2)
    scramble_all(agent)
    q = agent.critic.q_networks[0]
    obs, vectors = torch.randn(5, 3), torch.as_tensor(VECTORS[:1], dtype=torch.float32).repeat(5, 1)
    joint = torch.cat([obs, agent.critic.scale.to_inputs(vectors)], dim=1)
    hidden = joint @ torch.cat([q.state.weight, q.action.weight], dim=1).T + q.state.bias
    torch.testing.assert_close(agent.critic(obs, vectors)[0], q.rest(hidden).squeeze(1))


def test_protos_stay_in_the_box_of_the_vectors(agent):
    protos = agent.actor(100 * torch.randn(200, 3)).detach().numpy()
    assert (protos >= VECTORS.min(axis=0) - 1e-3).all()
    assert (protos <= VECTORS.max(axis=0) + 1e-3).all()
    assert np.ptp(protos[:, 0]) > 50


def test_scaling_there_and_back():
    scale = small_agent(TargetEnv(ActionTable(VECTORS)), k=2).actor.scale
    unit = scale.to_unit(torch.as_tensor(VECTORS, dtype=torch.float32))
    assert unit[:, :2].min() == -1
    assert unit[:, :2].max() == 1
    assert (unit[:, 2] == 0).all()  # a dimension without width
    np.testing.assert_allclose(scale.to_vectors(unit).numpy(), VECTORS, rtol=1e-6)


def test_values_start_near_0_and_protos_near_the_middle():
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=2)
    obs = torch.rand(50, 3)
    assert agent.actor.unit(obs).abs().max() < 0.1
    assert agent.critic(obs, torch.as_tensor(VECTORS[:1], dtype=torch.float32).repeat(50, 1)).abs().max() < 0.1


def test_the_critic_reads_vectors_of_size_one_whatever_their_box():
    vectors = np.random.default_rng(0).normal(size=(500, 3))
    vectors[0] = 5  # one far-out action makes the box wider
    scale = VectorScale(ActionTable(vectors))
    inputs = scale.to_inputs(torch.as_tensor(vectors, dtype=torch.float32))
    assert inputs.square().mean().sqrt().item() == pytest.approx(1, abs=0.15)  # measured on a sample
    unit = scale.to_unit(torch.as_tensor(vectors, dtype=torch.float32))
    torch.testing.assert_close(inputs * scale.spread, unit)


def test_equal_vectors_have_a_scale_too():
    scale = VectorScale(ActionTable(np.ones((4, 2))))
    assert scale.to_inputs(torch.ones(1, 2)).isfinite().all()


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
