"""Screening against scoring every candidate."""

import numpy as np
import pytest
import torch

from tests.agent.envs import CRITICS, TargetEnv, scramble_all, small_agent, with_critic
from wolpertinger import ActionTable, States, Wolpertinger
from wolpertinger.policy import screening
from wolpertinger.policy.scoring import evaluate, score_exactly
from wolpertinger.policy.screening import EightBitScreen, has_fast_products

STATES, K, DIM = 40, 400, 6
VECTORS = np.random.default_rng(0).normal(size=(2_000, DIM)).astype(np.float32)
PLAIN = {"policy_kwargs": {"net_arch": [48, 40]}}

needs_instructions = pytest.mark.skipif(not has_fast_products(), reason="this machine has no 8-bit products")
on_any_machine = pytest.mark.filterwarnings('ignore:rerank="screened" needs a CPU with 8-bit products')


def agent_with(vectors=VECTORS, **kwargs):
    agent = small_agent(TargetEnv(ActionTable(vectors)), **{"k": K, **PLAIN, **kwargs})
    scramble_all(agent)
    return agent


@pytest.fixture(params=CRITICS)
def agent(request):
    return agent_with(**with_critic(request.param, net_arch=[48, 40]))


@pytest.fixture
def obs():
    return torch.randn(STATES, DIM, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def screens(request, monkeypatch):
    """That screening takes place, and nobody just scores everything."""
    if "one layer" not in request.node.name:  # which has no product to round
        monkeypatch.setattr(screening, "score_exactly", None)


@pytest.fixture
def without_products(monkeypatch):
    """A machine without 8-bit products."""
    monkeypatch.setattr(screening, "has_fast_products", lambda: False)


@torch.no_grad()
def candidates(agent, obs):
    found = agent.actions.nearest(agent.actor(obs).numpy(), K)
    return torch.as_tensor(agent.actions.embed(found))


def compare(agent, features, vectors):
    """The places and values of the best by screening, and by scoring everything."""
    scores = (score(agent.critic, features, vectors) for score in (EightBitScreen(agent.critic), score_exactly))
    return [each.values.max(dim=1) for each in scores]


@needs_instructions
@torch.no_grad()
def test_screening_chooses_what_scoring_every_candidate_chooses(screens, agent, obs):
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    quick, slow = compare(agent, features, vectors)
    assert (quick.indices == slow.indices).float().mean() >= 0.95  # of 40 states; benchmarks measure thousands
    values = evaluate(agent.critic, features, vectors)
    torch.testing.assert_close(quick.values, values.gather(1, quick.indices[:, None])[:, 0])
    assert slow.values.std() > 0


@needs_instructions
@torch.no_grad()
def test_few_candidates_are_scored_by_the_critic_itself(screens, obs):
    agent = agent_with()
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    scores = EightBitScreen(agent.critic)(agent.critic, features, vectors)
    scored, values = ~scores.values.isneginf(), evaluate(agent.critic, features, vectors)
    assert (scored.sum(dim=1) >= screening.LEAST_FIRST).all()
    assert scored.float().mean() < 0.5
    torch.testing.assert_close(scores.values[scored], values[scored], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scores.mean, values.mean(dim=1), rtol=0, atol=0.1 * float(values.std()))


@needs_instructions
@torch.no_grad()
def test_actions_that_all_states_share(screens, agent, obs):
    shared, features = torch.as_tensor(VECTORS[:512]), agent.critic.features(obs)
    quick, slow = compare(agent, features, shared)
    assert (quick.indices == slow.indices).float().mean() >= 0.9


@needs_instructions
@pytest.mark.parametrize("dim", [2, 4])
@torch.no_grad()
def test_vectors_of_few_numbers(screens, dim):
    agent = agent_with(VECTORS[:, :dim])
    obs = torch.randn(STATES, dim, generator=torch.Generator().manual_seed(1))
    quick, slow = compare(agent, agent.critic.features(obs), candidates(agent, obs))
    assert (quick.values >= slow.values - 1e-4).float().mean() >= 0.95  # of actions in a line many are all but equal


@needs_instructions
@pytest.mark.parametrize("are_shared", [False, True])
@torch.no_grad()
def test_vectors_of_one_number_are_scored_one_and_all(are_shared):
    """Many of them would have the same 8 bits."""
    agent = agent_with(VECTORS[:, :1])
    obs = torch.randn(STATES, 1, generator=torch.Generator().manual_seed(1))
    vectors = torch.as_tensor(VECTORS[:512, :1]) if are_shared else candidates(agent, obs)
    quick, slow = compare(agent, agent.critic.features(obs), vectors)
    assert torch.equal(quick.indices, slow.indices)


@torch.no_grad()
def test_few_candidates_few_states_or_wide_vectors_are_scored_one_and_all(obs, monkeypatch, without_products):
    with pytest.warns(UserWarning, match="8-bit products"):
        agent = agent_with(rerank="screened")
    monkeypatch.setattr(screening, "has_fast_products", lambda: True)
    monkeypatch.setattr(screening, "_screen", None)  # nobody needs it
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    few = vectors[:, : screening.FEWEST_EACH - 1]
    for part in ((features, few), (features[:1], vectors[:1])):
        quick, slow = compare(agent, *part)
        assert torch.equal(quick.indices, slow.indices)
    with pytest.raises(TypeError, match="not callable"):
        compare(agent, features, vectors)
    monkeypatch.setattr(screening, "MAX_DIM", DIM - 1)
    quick, slow = compare(agent, features, vectors)
    assert torch.equal(quick.indices, slow.indices)


@torch.no_grad()
def test_a_machine_without_the_products_says_so_and_scores_exactly(obs, without_products, agent):
    with pytest.warns(
        UserWarning, match=r"needs a CPU with 8-bit products \(VNNI\).*every candidate is scored exactly"
    ):
        screen = EightBitScreen(agent.critic)
    vectors, features = candidates(agent, obs), agent.critic.features(obs)
    found, expected = (score(agent.critic, features, vectors) for score in (screen, score_exactly))
    torch.testing.assert_close(found.values, expected.values, rtol=0, atol=0)
    torch.testing.assert_close(found.mean, expected.mean, rtol=0, atol=0)


def test_two_towers_have_nothing_to_screen():
    with pytest.raises(ValueError, match=r'rerank="screened" is for critic="mlp".*leave rerank out'):
        agent_with(critic="two-tower", rerank="screened")


@on_any_machine
@pytest.mark.parametrize("rerank", ["exact", "screened"])
def test_a_policy_chooses_the_same_under_autocast(rerank, obs):
    agent = agent_with(rerank=rerank)
    expected, _ = agent.predict(obs.numpy())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        proto = agent.actor(obs).float()
        found = agent.policy.behaviour.rank(States(obs, proto), agent.critic).actions[:, 0]
    again = agent.policy.behaviour.rank(States(obs, proto), agent.critic).actions[:, 0]
    assert (found == again).float().mean() >= 0.9  # the state's features may be rounded
    assert len(expected) == len(found)


@needs_instructions
@torch.no_grad()
def test_equal_candidates_and_a_critic_without_an_opinion(screens, obs):
    agent = agent_with()
    for parameter in agent.critic.parameters():
        parameter.zero_()
    scores = EightBitScreen(agent.critic)(agent.critic, agent.critic.features(obs), torch.ones(STATES, K, DIM))
    assert scores.values.amax(dim=1).eq(0).all()
    assert scores.mean.eq(0).all()


@needs_instructions
@torch.no_grad()
def test_copies_of_one_action_at_the_top_do_not_hide_the_best(screens, obs):
    """All of them err alike, so their errors say nothing about the others'."""
    agent = agent_with()
    vectors, features = candidates(agent, obs).clone(), agent.critic.features(obs)
    values = evaluate(agent.critic, features, vectors)
    second = values.topk(2, dim=1).indices[:, 1]
    worst = values.topk(12, dim=1, largest=False).indices
    rows = torch.arange(STATES)
    vectors[rows[:, None], worst] = vectors[rows, second].unsqueeze(1)
    found = EightBitScreen(agent.critic)(agent.critic, features, vectors).values.amax(dim=1)
    assert (found >= values.amax(dim=1) - 1e-5).float().mean() >= 0.97


@on_any_machine
def test_an_agent_that_screens_learns_is_saved_and_says_so(tmp_path):
    agent = agent_with(rerank="screened", learning_starts=5)
    assert isinstance(agent.policy.behaviour.scorer, EightBitScreen)
    assert isinstance(agent.policy.predictor.scorer, EightBitScreen)
    agent.learn(20)
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert loaded.rerank == "screened"
    assert isinstance(loaded.policy.behaviour.scorer, EightBitScreen)
    exact = Wolpertinger.load(tmp_path / "agent.zip", rerank="exact")
    assert exact.rerank == "exact"
    assert exact.policy.behaviour.scorer is score_exactly


@needs_instructions
@torch.no_grad()
def test_a_list_of_the_best_is_scored_exactly(obs):
    """Screening tells which candidate wins, not in which order the others come."""
    agent = agent_with(rerank="screened")
    proto = agent.actor(obs)
    found = agent.policy.behaviour.rank(States(obs, proto), agent.critic, top=50)
    expected = evaluate(agent.critic, agent.critic.features(obs), candidates(agent, obs)).topk(50, dim=1)
    torch.testing.assert_close(found.values, expected.values, rtol=1e-4, atol=1e-4)
    assert (found.places == expected.indices).float().mean() > 0.99


def test_an_unknown_way_to_rerank_is_refused():
    with pytest.raises(ValueError, match="rerank='quick': give one of 'exact', 'screened'"):
        agent_with(rerank="quick")
