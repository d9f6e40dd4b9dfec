"""Screening against scoring every candidate."""

import numpy as np
import pytest
import torch
from torch import nn
from wolpertinger.agent.rerank import MANY, exact, rank
from wolpertinger.agent.screening import Favourites, StandIn, screened

from wolpertinger import ActionTable, Wolpertinger
from wolpertinger.agent import eight_bit, screening

from .envs import CRITICS, TargetEnv, scramble_all, small_agent

STATES, K, DIM = 40, 400, 6
VECTORS = np.random.default_rng(0).normal(size=(2_000, DIM)).astype(np.float32)


def agent_with(policy_kwargs, **kwargs):
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), policy_kwargs=policy_kwargs, **{"k": K, **kwargs})
    scramble_all(agent)
    return agent


@pytest.fixture(params=CRITICS)
def agent(request):
    return agent_with({"net_arch": [48, 40], **CRITICS[request.param]})


@pytest.fixture
def obs():
    return torch.randn(STATES, DIM, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def lines(monkeypatch):
    """A machine without 8-bit products, where straight lines are the stand-in."""
    monkeypatch.setattr(eight_bit, "is_fast", lambda: False)


@pytest.fixture(params=["lines", "eight bits"])
def way(request, monkeypatch):
    if request.param == "lines":
        request.getfixturevalue("lines")
    elif not eight_bit.is_fast():
        pytest.skip("this machine has no 8-bit products")
    elif "one layer" not in request.node.name:  # which has no product to round
        monkeypatch.setattr(screening, "StandIn", None)  # nobody needs it
        monkeypatch.setattr(screening, "exact", None)


@torch.no_grad()
def candidates(agent, obs):
    found = agent.actions.nearest(agent.actor(obs).numpy(), K)
    return torch.as_tensor(agent.actions.embed(found))


@torch.no_grad()
def test_screening_chooses_what_scoring_every_candidate_chooses(way, agent, obs):
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    quick, slow = screened(agent.critic, features, vectors), exact(agent.critic, features, vectors)
    assert (quick.place == slow.place).float().mean() >= 0.95  # of 40 states; benchmarks measure thousands
    torch.testing.assert_close(quick.value, rank(agent.critic, features, vectors).gather(1, quick.place[:, None])[:, 0])
    assert slow.value.std() > 0


@torch.no_grad()
def test_a_stand_in_that_keeps_every_unit_is_the_network(agent, obs, monkeypatch):
    monkeypatch.setattr(screening, "KEPT", 10_000)
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    for number, network in enumerate(agent.critic.networks):
        values = agent.critic(obs, vectors)[number]
        estimates = StandIn(network, agent.critic.scale, features, vectors)(vectors)
        torch.testing.assert_close(estimates, values, rtol=1e-3, atol=1e-3 * float(values.std()))


@torch.no_grad()
def test_a_stand_in_follows_the_network(agent, obs):
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    values = agent.critic(obs, vectors)[0]
    estimates = StandIn(agent.critic.networks[0], agent.critic.scale, features, vectors)(vectors)
    assert (estimates - values).std() < 0.5 * values.std()  # without a line or a kept unit it would be 1


@torch.no_grad()
def test_a_network_without_bends_is_estimated_exactly(obs, monkeypatch):
    monkeypatch.setattr(screening, "KEPT", 0)
    agent = agent_with({"net_arch": [48, 40], "activation_fn": nn.Identity})
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    estimates = StandIn(agent.critic.networks[0], agent.critic.scale, features, vectors)(vectors)
    torch.testing.assert_close(estimates, agent.critic(obs, vectors)[0], rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_estimates_do_not_depend_on_the_blocks(agent, obs, monkeypatch):
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    stand_in = StandIn(agent.critic.networks[0], agent.critic.scale, features, vectors)
    whole = stand_in(vectors)
    monkeypatch.setattr(screening, "BLOCK", 150)
    torch.testing.assert_close(stand_in(vectors), whole, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_actions_that_all_states_share(way, agent, obs):
    shared, features = torch.as_tensor(VECTORS[:MANY]), agent.critic.features(obs)
    quick, slow = screened(agent.critic, features, shared), exact(agent.critic, features, shared)
    assert (quick.place == slow.place).float().mean() >= 0.9  # all over the place, where lines fit less well


@torch.no_grad()
def test_few_candidates_or_wide_vectors_are_scored_one_and_all(lines, obs, monkeypatch):
    agent = agent_with({"net_arch": [48, 40]})
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    monkeypatch.setattr(screening, "StandIn", None)  # nobody needs it
    few = vectors[:, : screening.LEAST - 1]
    assert torch.equal(screened(agent.critic, features, few).place, exact(agent.critic, features, few).place)
    one = vectors[:1]
    assert torch.equal(screened(agent.critic, features[:1], one).place, exact(agent.critic, features[:1], one).place)
    monkeypatch.setattr(screening, "WIDEST", DIM - 1)
    assert torch.equal(screened(agent.critic, features, vectors).place, exact(agent.critic, features, vectors).place)


@torch.no_grad()
def test_vectors_of_few_numbers_are_screened_by_lines(obs, monkeypatch):
    agent = agent_with({"net_arch": [48, 40]})
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    monkeypatch.setattr(screening, "NARROWEST", DIM)
    monkeypatch.setattr(eight_bit, "in_eight_bits", None)  # nobody needs it
    quick, slow = screened(agent.critic, features, vectors), exact(agent.critic, features, vectors)
    assert (quick.place == slow.place).float().mean() >= 0.95


@pytest.mark.parametrize("rerank", ["exact", "screened"])
def test_a_policy_chooses_the_same_under_autocast(way, rerank, obs):
    agent = agent_with({"net_arch": [48, 40]}, rerank=rerank)
    expected, _ = agent.predict(obs.numpy())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        proto = agent.actor(obs).float()
        found = agent.policy.choose(obs, proto, agent.critic).action
    again = agent.policy.choose(obs, proto, agent.critic).action
    assert (found == again).float().mean() >= 0.9  # the state's features may be rounded
    assert len(expected) == len(found)


@torch.no_grad()
def test_equal_candidates_and_a_critic_without_an_opinion(way, obs):
    agent = agent_with({"net_arch": [48, 40]})
    for parameter in agent.critic.parameters():
        parameter.zero_()
    best = screened(agent.critic, agent.critic.features(obs), torch.ones(STATES, K, DIM))
    assert best.value.eq(0).all()
    assert ((best.place >= 0) & (best.place < K)).all()


@torch.no_grad()
def test_a_favourite_is_scored_however_low_its_estimate(lines, obs, monkeypatch):
    agent = agent_with({"net_arch": [48, 40]})
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    best = exact(agent.critic, features, vectors)
    blind = type("Blind", (StandIn,), {"__call__": lambda self, vectors: -StandIn.__call__(self, vectors)})
    monkeypatch.setattr(screening, "StandIn", blind)
    monkeypatch.setattr(screening, "LINE_MARGINS", (0.0,))
    assert (screened(agent.critic, features, vectors).place != best.place).any()
    favourites = torch.zeros(STATES, K, dtype=torch.bool).scatter_(1, best.place[:, None], True)
    assert torch.equal(screened(agent.critic, features, vectors, lambda: favourites).place, best.place)


def test_errors_are_judged_by_those_that_are_known():
    errors, known = torch.randn(5, 30), torch.rand(5, 30) < 0.5
    mean, deviation = screening._moments(errors.where(known, -torch.inf), known)
    each = [row[chosen] for row, chosen in zip(errors, known, strict=True)]
    torch.testing.assert_close(mean, torch.stack([row.mean() for row in each]))
    torch.testing.assert_close(deviation, torch.stack([row.std(correction=0) for row in each]))


def test_favourites_won_more_than_once_of_late(monkeypatch):
    monkeypatch.setattr(screening, "REMEMBERED", 6)
    monkeypatch.setattr(screening, "FAVOURED", 1.0)
    favourites = Favourites()
    assert favourites.among(torch.arange(4)) is None
    favourites.add(torch.tensor([3, 1, 3, 2]))
    assert favourites.among(torch.tensor([[0, 1], [3, 9]])).tolist() == [[False, False], [True, False]]
    favourites.add(torch.tensor([2, 7, 2]))  # the first 3 is forgotten
    assert favourites.among(torch.arange(10)).nonzero().flatten().tolist() == [2]
    favourites.add(torch.tensor([[1, 0], [1, 0]]))  # digits are not remembered
    assert favourites.among(torch.arange(10)).nonzero().flatten().tolist() == [2]


def test_training_remembers_and_acting_does_not():
    agent = agent_with({"net_arch": [48, 40]}, rerank="screened", learning_starts=5)
    agent.learn(4)
    agent.predict(np.zeros((9, DIM), np.float32))
    assert agent.policy.favourites.recent.eq(-1).all()
    agent.learn(20)
    assert agent.policy.favourites.recent.ge(0).any()


def test_favourites_are_kept_over_saving_and_loading(tmp_path):
    agent = agent_with({"net_arch": [48, 40]}, rerank="screened", learning_starts=5)
    agent.learn(20)
    agent.save(tmp_path / "agent.zip")
    favourites = Wolpertinger.load(tmp_path / "agent.zip").policy.favourites
    assert torch.equal(favourites.recent, agent.policy.favourites.recent)
    assert favourites.recent.ge(0).any()
    first = favourites.among(torch.arange(len(VECTORS)))
    favourites.load_state_dict({"recent": torch.full_like(favourites.recent, 7)})
    assert first is None or first.sum() != 1
    assert favourites.among(torch.arange(len(VECTORS))).nonzero().item() == 7


def test_files_from_before_there_were_favourites_can_be_read(tmp_path, monkeypatch):
    agent = agent_with({"net_arch": [48, 40]})
    monkeypatch.setattr(type(agent.policy), "state_dict", lambda self: without_favourites(nn.Module.state_dict(self)))
    agent.save(tmp_path / "agent.zip")
    monkeypatch.undo()
    assert Wolpertinger.load(tmp_path / "agent.zip").policy.favourites.recent.eq(-1).all()


def without_favourites(state):
    return {name: value for name, value in state.items() if not name.startswith("favourites")}


def test_an_agent_that_screens_learns_is_saved_and_says_so(tmp_path):
    agent = agent_with({"net_arch": [48, 40]}, rerank="screened", learning_starts=5)
    assert agent.policy.rerank == "screened"
    agent.learn(20)
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert loaded.rerank == loaded.policy.rerank == "screened"
    assert Wolpertinger.load(tmp_path / "agent.zip", rerank="exact").policy.rerank == "exact"


def test_an_unknown_way_to_rerank_is_refused():
    with pytest.raises(ValueError, match="rerank='quick': give one of 'exact', 'screened'"):
        agent_with({}, rerank="quick")


def test_favourites_are_at_most_a_share_of_the_candidates(monkeypatch):
    monkeypatch.setattr(screening, "FAVOURED", 0.5)
    favourites = Favourites()
    favourites.add(torch.tensor([5, 5, 5, 1, 1, 1, 1, 2, 2]))
    assert favourites.among(torch.tensor([[1, 2, 5, 6]])).tolist() == [
        [True, False, True, False]
    ]  # those that won most


@torch.no_grad()
def test_activations_that_work_in_place(obs):
    agent = agent_with({"net_arch": [48, 40], "activation_fn": InPlace})
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    values = agent.critic(obs, vectors)[0]
    estimates = StandIn(agent.critic.networks[0], agent.critic.scale, features, vectors)(vectors)
    assert (estimates - values).std() < 0.3 * values.std()


class InPlace(nn.LeakyReLU):
    def __init__(self):
        super().__init__(0.1, inplace=True)


@torch.no_grad()
def test_copies_of_one_action_at_the_top_do_not_hide_the_best(way, obs):
    """All of them err alike, so their errors say nothing about the others'."""
    agent = agent_with({"net_arch": [48, 40]})
    vectors, features = candidates(agent, obs).clone(), agent.critic.features(obs)
    values = rank(agent.critic, features, vectors)
    second = values.topk(2, dim=1).indices[:, 1]
    worst = values.topk(12, dim=1, largest=False).indices
    rows = torch.arange(STATES)
    vectors[rows[:, None], worst] = vectors[rows, second].unsqueeze(1)
    found = screened(agent.critic, features, vectors)
    assert (found.value >= values.amax(dim=1) - 1e-5).float().mean() >= 0.97
