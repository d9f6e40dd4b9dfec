"""A critic of two towers, and what these know of single vectors by their hashed embeddings."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from torch import nn

from tests.agent.envs import TargetEnv
from tests.policy.two_towers import VECTORS, fresh, states, tower_agent
from wolpertinger import ActionIds, ActionTable, TwoTower
from wolpertinger.networks.layers import Shape

MANY = torch.from_numpy(np.random.default_rng(0).normal(size=(2_000, 20)).astype(np.float32))
EMBEDDED = TwoTower(state_embedding=50, action_embedding=1000)


SHAPE = Shape(
    features_dim=20,
    dim=20,
    n_actions=1_000,
    net_arch=[32],
    activation_fn=nn.ReLU,
    layer_norm=True,
    learned_features=False,
)
IDS = ActionIds(1_000)


def make_towers(shape=SHAPE, **settings):
    torch.manual_seed(0)
    return TwoTower(**settings)(shape)


def numbered_towers(**settings):
    return make_towers(replace(SHAPE, dim=IDS.dim, is_numbered=True), **settings)


@pytest.mark.parametrize("shape", [(1_000,), (8, 125)])
def test_actions_without_vectors_have_a_row_each(shape):
    towers, ids = numbered_towers(width=4), np.arange(1_000).reshape(shape)
    keys = towers.key(torch.from_numpy(IDS.embed(ids)))
    assert keys.shape == (*shape, 5)
    expected = [[6 * number for number in towers.action_tower.rows[i].tolist()] for i in range(1_000)]
    np.testing.assert_allclose(keys.detach().reshape(-1, 5), expected, rtol=1e-6)


def test_what_is_learned_of_one_number_leaves_the_others():
    towers = numbered_towers(width=4)
    vectors = torch.from_numpy(IDS.embed(np.arange(1_000)))
    (towers(MANY[:1], vectors[617:618]) - 5).square().sum().backward()
    moved = towers.action_tower.rows.grad.abs().amax(dim=1)
    assert moved.nonzero().ravel().tolist() == [617]


def test_rows_by_hash_beside_rows_by_number_are_refused():
    with pytest.raises(ValueError, match=r"action_embedding=8.0: ActionIds have a row each"):
        numbered_towers(action_embedding=8.0)


@torch.no_grad()
def test_the_value_is_the_product_of_the_towers_and_what_each_adds():
    agent = fresh(tower_agent())
    network, obs, vector = agent.critic.q_networks[0], states(1), torch.from_numpy(VECTORS[:1])
    state, action = network.state_tower(obs)[0], network.action_tower(agent.critic.scale.to_inputs(vector))[0]
    product = sum(float(state[i] * action[i]) for i in range(len(state) - 1))
    assert agent.critic(obs, vector).item() == pytest.approx(product + float(action[-1]) + float(state[-1]), rel=1e-4)


def test_values_start_near_0_and_every_layer_has_a_gradient():
    agent = tower_agent()
    q = agent.critic(states(), torch.from_numpy(VECTORS[:7]))
    assert q.abs().max() < 0.1
    q.sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().max() > 0 for parameter in agent.critic.parameters())


@pytest.mark.parametrize("where", ["state", "action"])
def test_a_step_moves_an_embedding_by_its_scale(where):
    moved = []
    for scale in (0.5, 2.0):
        tower = getattr(make_towers(embedding_scale=scale, **{f"{where}_embedding": 2**16}), f"{where}_tower")
        before = tower(MANY[:1]).detach()
        tower.network.requires_grad_(False)
        optimizer = torch.optim.Adam([tower.embedding.rows], lr=0.01)
        tower(MANY[:1]).sum().backward()
        optimizer.step()
        moved.append((tower(MANY[:1]) - before).detach())
    torch.testing.assert_close(moved[0], torch.full_like(moved[0], -0.5 * 0.01), rtol=1e-3, atol=0)
    torch.testing.assert_close(moved[1], 4 * moved[0], rtol=1e-3, atol=0)


@pytest.mark.parametrize("scale", [0, -1.0, float("nan"), float("inf"), True, "2"])
def test_an_embedding_without_scale_is_refused(scale):
    with pytest.raises(ValueError, match=r"embedding_scale=.*: give a finite number above 0"):
        TwoTower(embedding_scale=scale)


@pytest.mark.parametrize("width", [0, 2.5, True, "wide"])
def test_a_width_that_cannot_be_is_refused(width):
    with pytest.raises(ValueError, match=r"width=.*: give a whole number from 1 to 65536"):
        TwoTower(width=width)


@pytest.mark.parametrize("where", ["state", "action"])
@pytest.mark.parametrize("rows", [-1, "x", float("nan")])
def test_rows_that_cannot_be_are_refused_at_once(where, rows):
    with pytest.raises(ValueError, match=rf"{where}_embedding=.*: give rows"):
        TwoTower(**{f"{where}_embedding": rows})


@pytest.mark.parametrize("where", ["state", "action"])
def test_what_is_learned_of_one_vector_is_remembered_for_it_alone(where):
    towers = make_towers(width=4, **{f"{where}_embedding": 2**16})
    for network in (towers.state_tower.network, towers.action_tower.network):
        network.requires_grad_(False)
    nn.init.normal_(towers.action_tower.network[-1].weight)  # as if something had been learned
    state, action = MANY[:1], MANY[1:2]
    before = towers(MANY[2:50], MANY[52:100])
    optimizer = torch.optim.Adam([row for row in towers.parameters() if row.requires_grad], lr=0.05)
    for _ in range(200):
        loss = (towers(state, action) - 5).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert towers(state, action).item() == pytest.approx(5, abs=0.1)
    torch.testing.assert_close(towers(MANY[2:50], MANY[52:100]), before)


@pytest.mark.parametrize(("given", "rows"), [(70, 70), (0.5, 500), (8.0, 8_000), (1e-9, None), (0, None)])
@pytest.mark.parametrize("where", ["state", "action"])
def test_each_tower_has_the_rows_it_was_given(given, rows, where):
    towers = make_towers(**{f"{where}_embedding": given})
    embeddings = {"state": towers.state_tower.embedding, "action": towers.action_tower.embedding}
    found = embeddings.pop(where)
    assert (None if found is None else len(found.rows)) == rows
    assert set(embeddings.values()) == {None}


def test_a_vector_that_was_never_seen_is_known_by_the_network_alone():
    towers = make_towers(state_embedding=100, action_embedding=100)
    torch.testing.assert_close(towers.key(MANY), towers.action_tower.network(MANY))
    torch.testing.assert_close(towers.query(MANY)[1], towers.state_tower.network(MANY)[:, -1])


def test_what_stands_in_for_rows_needs_rows():
    with pytest.raises(ValueError, match=r"state_neighbours=3 without state_embedding, whose rows tell what is new"):
        TwoTower(state_neighbours=3, action_embedding=8.0)
    with pytest.raises(ValueError, match=r"optimism=0.5 without action_embedding, whose rows tell what is new"):
        TwoTower(optimism=0.5, state_embedding=8.0)


def test_target_snapshot_and_file_know_what_was_learned_of(tmp_path):
    critic = replace(EMBEDDED, state_neighbours=2, optimism=0.5)
    agent = fresh(tower_agent(critic=critic)).learn(40)
    agent.predict(states().numpy())
    agent.save(tmp_path / "agent.zip")
    loaded = type(agent).load(tmp_path / "agent.zip")
    for other in (agent.critic_target, agent.policy.predictor.source.snapshot, loaded.critic, loaded.critic_target):
        for tower in ("state_tower", "action_tower"):
            ours, theirs = (getattr(each.q_networks[0], tower).embedding for each in (agent.critic, other))
            assert torch.equal(ours.tries, theirs.tries)
            assert ours.tries.sum() > 0
        assert torch.equal(
            agent.critic.q_networks[0].state_tower.embedding.vectors, other.q_networks[0].state_tower.embedding.vectors
        )


def test_an_action_that_is_added_is_given_a_try():
    agent = fresh(tower_agent(critic=replace(EMBEDDED, action_embedding=2**16, optimism=1e3))).learn(40)
    new = agent.actions.add(np.full((1, 3), 0.1, np.float32))
    rows = agent.critic.q_networks[0].action_tower.embedding
    tries = rows.tries[rows.row(agent.critic.scale.to_inputs(torch.from_numpy(agent.actions.vectors.copy())))]
    assert tries[new].item() == 0 < tries.max().item()
    chosen = agent.predict(states().numpy())[0]
    assert (tries[chosen] == 0).all()  # others that nothing was learned of are as good as new


def test_target_and_snapshot_find_the_same_rows(tmp_path):
    agent = fresh(tower_agent(critic=EMBEDDED))
    agent.learn(40)
    agent.save(tmp_path / "agent.zip")
    loaded = type(agent).load(tmp_path / "agent.zip", seed=1)  # which draws other hashes before those of the file
    snapshots = [each.policy.behaviour.source.snapshot for each in (agent, loaded)]
    others = (agent.critic_target, agent.policy.predictor.source.snapshot, *snapshots, loaded.critic)
    vectors = torch.from_numpy(VECTORS)
    for other in others:
        for tower, inputs in (("state_tower", states()), ("action_tower", vectors)):
            ours, theirs = (getattr(critic.q_networks[0], tower).embedding for critic in (agent.critic, other))
            torch.testing.assert_close(theirs.row(inputs), ours.row(inputs), rtol=0, atol=0)


def test_states_whose_numbers_change_cannot_be_told_apart():
    def normalised(norm_obs):
        env = DummyVecEnv([lambda: TargetEnv(ActionTable(VECTORS), length=5)])
        return VecNormalize(env, norm_obs=norm_obs)

    with pytest.raises(ValueError, match="state_embedding=50 tells states apart by their numbers, which VecNormalize"):
        tower_agent(normalised(norm_obs=True), critic=EMBEDDED)
    agent = tower_agent(normalised(norm_obs=False), critic=EMBEDDED).learn(20)
    with pytest.raises(ValueError, match="which VecNormalize"):
        agent.set_env(normalised(norm_obs=True))
    agent.set_env(normalised(norm_obs=False))


def test_layers_before_a_state_embedding_are_refused():
    with pytest.raises(ValueError, match="leave out state_arch"):
        tower_agent(critic=EMBEDDED, policy_kwargs={"state_arch": [8]})
