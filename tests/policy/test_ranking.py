"""The best of many, block by block, and when the critic is asked for them."""

import numpy as np
import pytest
import torch

from tests.agent.envs import TargetEnv, scramble_all, small_agent
from wolpertinger import ActionTable, Candidates, States
from wolpertinger.policy.ranking import Best, Ranking

BATCH, K, DIM = 4, 13, 3
VECTORS = np.random.default_rng(0).normal(size=(60, DIM)).astype(np.float32)
AT_ONCE = "wolpertinger.policy.policy.CANDIDATES_AT_ONCE"


def draw(levels, seed=0):
    """Candidates (batch, k), their vectors, and values of which many are equal if they have few levels."""
    rng = np.random.default_rng(seed)
    actions = np.stack([rng.permutation(60)[:K] for _ in range(BATCH)])
    values = rng.integers(levels, size=(BATCH, K)).astype(np.float32)
    return torch.from_numpy(actions), torch.from_numpy(VECTORS[actions]), torch.from_numpy(values)


def sort_in_a_loop(values):
    """Places of the largest first; among equal ones the earlier one."""
    return np.array([sorted(range(len(row)), key=lambda place: (-row[place], place)) for row in values.tolist()])


@pytest.mark.parametrize("levels", [1, 3, 1_000])
@pytest.mark.parametrize("m", [1, 2, 7, K, K + 5, 2**100])
@pytest.mark.parametrize("size", [1, 2, 5, K])
def test_a_running_best_over_blocks_equals_a_sorted_loop(size, m, levels):
    actions, vectors, values = draw(levels)
    parts = zip(*(torch.split(tensor, size, dim=1) for tensor in (actions, vectors, values)), strict=True)
    found = [Best.of(*part, part[2].mean(dim=1), min(m, part[2].shape[1])) for part in parts]
    best = found[0]
    for later in found[1:]:
        best = best.merge(later, m)
    order = torch.from_numpy(sort_in_a_loop(values))[:, : min(m, K)]
    torch.testing.assert_close(best.places, order)
    torch.testing.assert_close(best.values, values.gather(1, order))
    torch.testing.assert_close(best.actions, actions.gather(1, order))
    torch.testing.assert_close(best.vectors, torch.from_numpy(VECTORS)[best.actions])
    torch.testing.assert_close(best.mean, values.mean(dim=1))
    assert best.count == K


@pytest.mark.parametrize("m", [1, 4, K])
def test_candidates_that_all_states_share_are_ranked_in_each(m):
    actions, _, values = draw(levels=5)
    shared, vectors = actions[0], torch.from_numpy(VECTORS)[actions[0]]
    best = Best.of(shared, vectors, values, values.mean(dim=1), m)
    order = torch.from_numpy(sort_in_a_loop(values))[:, :m]
    torch.testing.assert_close(best.places, order)
    torch.testing.assert_close(best.actions, shared[order])
    torch.testing.assert_close(best.vectors, vectors[order])
    assert best.count == K


def test_digits_are_ranked_as_ids_are():
    actions, vectors, values = draw(levels=1_000)
    digits = torch.stack([actions // 10, actions % 10], dim=-1)
    best = Best.of(digits, vectors, values, values.mean(dim=1), 3)
    ids = Best.of(actions, vectors, values, values.mean(dim=1), 3).actions
    torch.testing.assert_close(best.actions, torch.stack([ids // 10, ids % 10], dim=-1))


def test_values_that_are_no_numbers_come_first_and_are_seen():
    """A critic that has diverged must not look healthy."""
    actions, vectors, values = draw(levels=1_000)
    values[:, 5] = torch.nan
    for m in (1, 3):
        assert Best.of(actions, vectors, values, values.mean(dim=1), m).values[:, 0].isnan().all()


class Score:
    """Counts how often it is asked."""

    def __init__(self, found):
        self.found, self.asked = found, 0

    def __call__(self, candidates):
        self.asked += 1
        return self.found


def ranking_of(k, **kwargs):
    actions, vectors, values = (part[:, :k] for part in draw(levels=1_000))
    score = Score(Best.of(actions, vectors, values, values.mean(dim=1), 1))
    return Ranking(States(torch.zeros(BATCH, DIM)), Candidates(actions, "test", **kwargs), score), score


def test_the_only_candidate_needs_no_critic_until_values_are_asked_for():
    ranking, score = ranking_of(k=1)
    assert torch.equal(ranking.actions, ranking.candidates.actions)
    assert score.asked == 0
    assert torch.equal(ranking.values, score.found.values)
    assert torch.equal(ranking.vectors, score.found.vectors)
    assert torch.equal(ranking.mean, score.found.mean)
    assert ranking.places.eq(0).all()
    assert score.asked == 1


def test_of_several_candidates_the_critic_is_asked_once():
    ranking, score = ranking_of(k=5)
    assert score.asked == 0
    assert torch.equal(ranking.actions, score.found.actions)
    assert torch.equal(ranking.values, score.found.values)
    assert score.asked == 1


def test_only_candidates_in_that_order_can_be_nearest():
    assert ranking_of(k=5)[0].is_nearest is None
    ranking, score = ranking_of(k=2, nearest_first=True)
    assert torch.equal(ranking.is_nearest, score.found.places[:, 0] == 0)
    assert 0 < ranking.is_nearest.float().mean() < 1


def test_everyone_is_named_who_found_something():
    assert ranking_of(k=5)[0].sources().tolist() == [["test"]] * BATCH


@pytest.mark.parametrize("at_once", [1, 3, 100_000])
def test_acting_at_k_1_asks_no_critic_however_many_states_there_are(at_once, monkeypatch):
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=1)
    scramble_all(agent)
    monkeypatch.setattr(AT_ONCE, at_once)
    obs, proto = torch.randn(20, DIM), torch.randn(20, DIM)
    asked, features = [], agent.critic.features
    monkeypatch.setattr(agent.critic, "features", lambda obs: asked.append(len(obs)) or features(obs))
    ranking = agent.policy.behaviour.rank(States(obs, proto), agent.critic)
    np.testing.assert_array_equal(ranking.actions, agent.actions.nearest(proto.numpy(), 1))
    assert not asked
    vectors = torch.from_numpy(VECTORS)[ranking.actions]
    with torch.no_grad():
        torch.testing.assert_close(ranking.values, agent.critic(obs, vectors)[0], rtol=1e-4, atol=1e-5)
    assert asked[0] == 20


def test_what_was_scored_stays_when_the_critic_learns():
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=9)
    scramble_all(agent)
    states = States(torch.randn(20, DIM), torch.randn(20, DIM))
    ranking = agent.policy.behaviour.rank(states, agent.critic)
    values, scored = ranking.values.clone(), agent.policy.behaviour.rank(states, agent.critic).scored()
    with torch.no_grad():
        for parameter in agent.critic.parameters():
            parameter.mul_(2)
    assert torch.equal(ranking.values, values)
    assert torch.equal(scored.values, values)
    assert not torch.equal(agent.policy.behaviour.rank(states, agent.critic).values, values)
