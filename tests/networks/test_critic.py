"""The critic in all its forms: the split first layer, many candidates at once."""

import numpy as np
import pytest
import torch

from tests.agent.envs import TargetEnv, scramble_all, small_agent
from wolpertinger import MLP, ActionTable, TwoTower
from wolpertinger.networks import make_critic_settings

VECTORS = np.array([[100.0, -3.0, 7.0], [300.0, -1.0, 7.0], [150.0, -2.0, 7.0], [120.0, -1.5, 7.0]])
VARIANTS = {
    "plain": {},
    "layer norm": {"layer_norm": True},
    "unit features": {"unit_features": True},
    "interaction": {"critic": MLP(interaction=True)},
    "twins": {"n_critics": 2},
    "state layers": {"state_arch": [12, 8], "layer_norm": True, "n_critics": 2},
    "all": {"critic": MLP(interaction=True), "layer_norm": True, "n_critics": 3},
    "two towers": {"critic": TwoTower(width=5, state_embedding=20, action_embedding=20), "n_critics": 2},
}


@pytest.fixture(params=VARIANTS)
def agent(request):
    variant = dict(VARIANTS[request.param])
    critic, policy_kwargs = variant.pop("critic", "mlp"), {"net_arch": [16, 16], **variant}
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=2, critic=critic, policy_kwargs=policy_kwargs)
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


def test_an_interaction_adds_the_product_of_two_projections():
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=2, critic=MLP(interaction=True))
    scramble_all(agent)
    q = agent.critic.q_networks[0]
    obs, vectors = torch.randn(4, 3), torch.as_tensor(VECTORS, dtype=torch.float32)
    inputs = agent.critic.scale.to_inputs(vectors)
    hidden = q.state(obs) + q.action(inputs) + q.state_factor(obs) * q.action_factor(inputs)
    torch.testing.assert_close(agent.critic(obs, vectors)[0], q.rest(hidden).squeeze(1))


def test_values_start_near_0():
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=2)
    vectors = torch.as_tensor(VECTORS[:1], dtype=torch.float32).repeat(50, 1)
    assert agent.critic(torch.rand(50, 3), vectors).abs().max() < 0.1


@pytest.mark.parametrize(("critic", "has_keys"), [("mlp", False), ("two-tower", True)])
def test_only_two_towers_have_keys(critic, has_keys):
    assert small_agent(critic=critic).critic.has_keys == has_keys


@torch.no_grad()
def test_products_of_queries_and_keys_are_the_sum_of_the_critics_values_but_for_the_states_part():
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), critic="two-tower", k=2, policy_kwargs={"n_critics": 3})
    scramble_all(agent)
    obs, vectors = torch.randn(6, 3), torch.as_tensor(VECTORS, dtype=torch.float32)
    products = agent.critic.queries(obs) @ agent.critic.keys(vectors).t()  # (6, 4)
    values = agent.critic(obs, vectors.expand(6, -1, -1)).sum(dim=0)
    difference = values - products  # u(s): whatever the action
    torch.testing.assert_close(difference, difference[:, :1].expand_as(difference), rtol=1e-3, atol=1e-3)
    assert products.std(dim=1).min() > 0.1


@pytest.mark.parametrize("settings", [MLP(interaction=True), TwoTower(width=3, action_embedding=2.0), MLP()])
def test_settings_of_a_critic_become_json_and_back(settings):
    assert make_critic_settings(settings.to_json()) == settings


@pytest.mark.parametrize(
    ("critic", "error", "message"),
    [
        ("linear", ValueError, r"critic='linear': give one of \"mlp\" or MLP\(...\), \"two-tower\" or TwoTower\(...\)"),
        ({"kind": "mlp", "width": 3}, ValueError, "critic: MLP has no width; it has interaction"),
        (3, TypeError, r"critic=3: give one of \"mlp\""),
        (len, TypeError, r"give MLP\(...\), TwoTower\(...\), for slates PerItem\(...\), or for levels Factored"),
    ],
)
def test_an_unknown_critic_is_refused(critic, error, message):
    with pytest.raises(error, match=message):
        small_agent(critic=critic)


@pytest.mark.parametrize("interaction", [1, "yes", None])
def test_interaction_is_true_or_false(interaction):
    with pytest.raises(ValueError, match=r"interaction=.*: give True or False"):
        MLP(interaction=interaction)


@pytest.mark.parametrize("n_critics", [0, 1.5, True])
def test_critics_are_counted(n_critics):
    with pytest.raises(ValueError, match=r"n_critics=.*: give a whole number from 1 to 100"):
        small_agent(policy_kwargs={"n_critics": n_critics})


def test_the_same_actions_are_valued_in_every_state(agent):
    obs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    vectors = torch.as_tensor(VECTORS, dtype=torch.float32)
    expected = agent.critic(obs, vectors.expand(5, -1, -1))
    torch.testing.assert_close(agent.critic.cross(obs, vectors), expected, rtol=1e-4, atol=1e-4)
