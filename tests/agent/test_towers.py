"""What towers remember of single vectors."""

import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from torch import nn
from wolpertinger.agent.towers import STEP, Memory, TwoTower

from wolpertinger import ActionTable

from .envs import TargetEnv
from .test_search import CRITICS, VECTORS, fresh, states, tower_agent

MANY = torch.from_numpy(np.random.default_rng(0).normal(size=(2_000, 20)).astype(np.float32))


def make_towers(**kwargs):
    torch.manual_seed(0)
    return TwoTower(20, 20, [32], nn.ReLU, layer_norm=True, n_actions=1_000, **kwargs)


def test_hashes_share_rows_no_more_than_chance_does():
    torch.manual_seed(0)
    memory = Memory(20, 4_000, 3)
    rows = memory.row(MANY)
    assert rows.min() >= 0
    assert rows.max() < 4_000
    expected = 4_000 * (1 - (1 - 1 / 4_000) ** 2_000)  # rows in use if each vector drew one
    assert len(rows.unique()) == pytest.approx(expected, abs=4 * 15)  # 15: the standard deviation of such draws


@pytest.mark.parametrize("change", [0.0, STEP / 100, 2 * STEP, -3.0, 1e6])
def test_a_vector_has_the_same_row_again_and_another_one_if_a_number_differs(change):
    torch.manual_seed(0)
    memory, grid = Memory(20, 2**20, 3), (MANY / STEP).round() * STEP
    other = grid.clone()
    other[:, 7] += change
    share = (memory.row(grid) == memory.row(other)).float().mean()
    assert share == 1 if abs(change) < STEP else share < 0.01


def test_rows_do_not_depend_on_what_else_is_asked():
    memory = Memory(20, 500, 3)
    one_by_one = torch.stack([memory.row(vector) for vector in MANY[:50]])
    torch.testing.assert_close(memory.row(MANY[:50].reshape(5, 10, 20)).flatten(), one_by_one, rtol=0, atol=0)


@pytest.mark.parametrize("where", ["state", "action"])
def test_a_step_moves_a_memory_by_its_strength(where):
    moved = []
    for strength in (0.5, 2.0):
        tower = getattr(make_towers(strength=strength, **{f"{where}_memory": 2**16}), f"{where}_tower")
        before = tower(MANY[:1]).detach()
        tower.network.requires_grad_(False)
        optimizer = torch.optim.Adam([tower.memory.rows], lr=0.01)
        tower(MANY[:1]).sum().backward()
        optimizer.step()
        moved.append((tower(MANY[:1]) - before).detach())
    torch.testing.assert_close(moved[0], torch.full_like(moved[0], -0.5 * 0.01), rtol=1e-3, atol=0)
    torch.testing.assert_close(moved[1], 4 * moved[0], rtol=1e-3, atol=0)


@pytest.mark.parametrize("strength", [0, -1.0, float("nan"), float("inf"), True, "2"])
def test_a_memory_without_strength_is_refused(strength):
    with pytest.raises(ValueError, match=r"strength=.* of a memory: give a finite number above 0"):
        make_towers(strength=strength)


@pytest.mark.parametrize("where", ["state", "action"])
def test_what_is_learned_of_one_vector_is_remembered_for_it_alone(where):
    towers = make_towers(**{f"{where}_memory": 2**16})
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


@pytest.mark.parametrize(("memory", "rows"), [(70, 70), (0.5, 500), (8.0, 8_000), (1e-9, None), (0, None)])
@pytest.mark.parametrize("where", ["state", "action"])
def test_rows_are_a_count_or_so_many_times_the_actions(memory, rows, where):
    towers = make_towers(**{f"{where}_memory": memory})
    memories = {"state": towers.state_tower.memory, "action": towers.action_tower.memory}
    found = memories.pop(where)
    assert (None if found is None else len(found.rows)) == rows
    assert set(memories.values()) == {None}


def test_a_vector_that_was_never_seen_is_known_by_the_network_alone():
    towers = make_towers(state_memory=100, action_memory=100)
    torch.testing.assert_close(towers.key(MANY), towers.action_tower.network(MANY))
    torch.testing.assert_close(towers.query(MANY)[1], towers.state_tower.network(MANY)[:, -1])


def test_target_and_search_remember_by_the_same_rows(tmp_path):
    agent = fresh(tower_agent(policy_kwargs=CRITICS["memories"]))
    agent.learn(40)
    agent.save(tmp_path / "agent.zip")
    loaded = type(agent).load(tmp_path / "agent.zip", seed=1)  # which draws other hashes before those of the file
    others = (agent.critic_target, agent.policy.search.critic, loaded.critic)
    vectors = torch.from_numpy(VECTORS)
    for other in others:
        for tower, inputs in (("state_tower", states()), ("action_tower", vectors)):
            ours, theirs = (getattr(critic.q_networks[0], tower).memory for critic in (agent.critic, other))
            torch.testing.assert_close(theirs.row(inputs), ours.row(inputs), rtol=0, atol=0)


def test_states_whose_numbers_change_cannot_be_remembered():
    def normalised(norm_obs):
        env = DummyVecEnv([lambda: TargetEnv(ActionTable(VECTORS), length=5)])
        return VecNormalize(env, norm_obs=norm_obs)

    with pytest.raises(ValueError, match="state_memory=50 tells states apart by their numbers, which VecNormalize"):
        tower_agent(normalised(norm_obs=True), policy_kwargs=CRITICS["memories"])
    agent = tower_agent(normalised(norm_obs=False), policy_kwargs=CRITICS["memories"]).learn(20)
    with pytest.raises(ValueError, match="which VecNormalize"):
        agent.set_env(normalised(norm_obs=True))
    agent.set_env(normalised(norm_obs=False))
