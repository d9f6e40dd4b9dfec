"""A critic that is a mean over the factors of a product, beside loops."""

import numpy as np
import pytest
import torch

from tests.agent.envs import TargetEnv, scramble_all, small_agent
from wolpertinger import ActionProduct, ActionTable, Factored
from wolpertinger.networks.layers import Shape
from wolpertinger.policy.scoring import evaluate

PRODUCTS = {
    "scalars": ActionProduct([np.linspace(-1, 1, 5)] * 3),
    "one factor": ActionProduct([np.linspace(-2, 2, 9)]),
    "unordered": ActionProduct([[3.0, 1.0, 2.0], [5.0], np.linspace(0, 1, 4)]),
    "vectors": ActionProduct([np.eye(3), [[0.0, 0.0], [1.0, 2.0]], np.eye(3) * 2]),
    "mixed": ActionProduct([np.linspace(-1, 1, 4), np.eye(3), [7.0, 6.0]]),
}
OBS = torch.from_numpy(np.random.default_rng(3).uniform(-1, 1, (6, 4)).astype(np.float32))


def make_critic(actions, n_critics=1, **settings):
    env = TargetEnv(actions)
    own = {"critic": Factored(**settings), "candidates": "factors"}
    agent = small_agent(env, k=1, policy_kwargs={"net_arch": [8, 8], "n_critics": n_critics}, **own)
    scramble_all(agent)
    return agent.critic, OBS[:, :1].expand(-1, actions.dim)


def all_digits(actions):
    return np.stack(np.unravel_index(np.arange(actions.n), actions.factors), axis=-1)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_value_is_the_states_own_and_the_mean_of_its_levels_utilities(name):
    actions = PRODUCTS[name]
    critic, obs = make_critic(actions)
    network = critic.networks[0]
    by_group, own = network.utilities(critic.features(obs))
    of_level = {}
    for group, part in zip(network.groups, by_group, strict=True):
        for place, number in enumerate(group.numbers):
            for knot, level in enumerate(group.level_of[place][group.is_real[place]].tolist()):
                of_level[number, level] = part[:, place, knot]
    for digits, vector in zip(all_digits(actions), actions.embed(np.arange(actions.n)), strict=True):
        levels = [of_level[number, digit] for number, digit in enumerate(digits.tolist())]
        values = critic(obs, torch.from_numpy(vector).expand(len(obs), -1))[0]
        torch.testing.assert_close(values, own + torch.stack(levels).mean(dim=0))


@pytest.mark.parametrize("name", PRODUCTS)
def test_all_ways_to_ask_give_the_same_values(name):
    actions = PRODUCTS[name]
    critic, obs = make_critic(actions, n_critics=2)
    vectors = torch.from_numpy(actions.embed(np.arange(actions.n)))
    one_by_one = torch.stack([critic(obs, vector.expand(len(obs), -1)) for vector in vectors], dim=2)
    many = vectors.expand(len(obs), *vectors.shape)
    torch.testing.assert_close(critic(obs, many), one_by_one)
    torch.testing.assert_close(critic.cross(obs, vectors), one_by_one)
    with torch.no_grad():
        features = critic.features(obs)
        for given in (vectors, many):
            torch.testing.assert_close(evaluate(critic, features, given), one_by_one.amin(dim=0))


def test_between_knots_values_are_linear():
    actions = ActionProduct([np.linspace(-1, 1, 101)])
    critic, obs = make_critic(actions, knots=5)
    values = critic(obs, torch.from_numpy(actions.embed(np.arange(101))).expand(len(obs), 101, 1))[0].detach().numpy()
    knots = np.linspace(0, 100, 5)
    for row in values:
        np.testing.assert_allclose(row, np.interp(np.arange(101), knots, row[knots.astype(int)]), atol=1e-5)
    assert critic.networks[0].last.out_features == 5 + 1


def test_a_point_between_two_levels_has_a_gradient():
    critic, obs = make_critic(PRODUCTS["scalars"])
    proto = torch.full((len(obs), 3), 0.3, requires_grad=True)
    critic(obs, proto).sum().backward()
    step = 0.01
    for place in range(3):
        moved = proto.detach().clone()
        moved[:, place] += step
        slope = (critic(obs, moved) - critic(obs, proto.detach()))[0] / step
        torch.testing.assert_close(proto.grad[:, place], slope.detach(), rtol=1e-2, atol=1e-3)


def test_other_sets_and_too_many_levels_are_refused():
    with pytest.raises(ValueError, match=r"for products of levels: give actions=ActionProduct"):
        small_agent(TargetEnv(ActionTable(np.eye(4))), critic="factored", candidates="all", k=1)
    levels = (np.eye(300, dtype=np.float32),) * 300
    shape = Shape(3, 90_000, 2**60, [8], torch.nn.ReLU, False, False, levels=levels)
    with pytest.raises(ValueError, match="90,000 levels in all: a factored critic takes 65,536 at most"):
        Factored()(shape)
