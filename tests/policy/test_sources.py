"""Where candidates come from: the nearest, all of A, several sources side by side, one of the user's own."""

import numpy as np
import pytest
import torch

from tests.agent.envs import TargetEnv, all_actions, best_of, greedy, scramble_all, small_agent
from tests.policy.two_towers import VECTORS, all_values, fresh, states, tower_agent
from wolpertinger import (
    ActionProduct,
    ActionTable,
    BestByCritic,
    Candidates,
    CandidateSource,
    Everything,
    Nearest,
    States,
    TooManyActionsError,
    TwoTower,
    Union,
    Wolpertinger,
)
from wolpertinger.policy import make_source_settings

AT_ONCE = "wolpertinger.policy.policy.CANDIDATES_AT_ONCE"
SETS = {
    "table": lambda: ActionTable(VECTORS[:40]),
    "ids": lambda: ActionProduct([np.linspace(-1, 1, 4)] * 3, space="discrete"),
    "digits": lambda: ActionProduct([np.linspace(-1, 1, 4)] * 3, space="multidiscrete"),
}
SOURCES = {"nearest": Nearest(), "critic": BestByCritic(), "both": Union(), "all": Everything()}


@pytest.fixture(params=SETS)
def actions(request):
    return SETS[request.param]()


def rank(agent, obs, top=1):
    behaviour = agent.policy.behaviour
    return behaviour.rank(behaviour.propose(agent.actor, obs), agent.critic, top)


@pytest.mark.parametrize("at_once", [50, 100_000])
@pytest.mark.parametrize(("candidates", "k"), [("all", 1), ("all", 5), *((name, 1.0) for name in SOURCES)])
def test_the_best_of_all_of_a_where_every_action_is_a_candidate(actions, candidates, k, at_once, monkeypatch):
    """`Everything`, whatever k; the other sources with k = |A|."""
    agent = fresh(tower_agent(TargetEnv(actions), k=k, candidates=candidates))
    monkeypatch.setattr(AT_ONCE, at_once)
    obs = states()
    ranking, values = rank(agent, obs), all_values(agent, obs)
    torch.testing.assert_close(ranking.values[:, 0], values.amax(dim=1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ranking.places[:, 0], values.argmax(dim=1))
    np.testing.assert_array_equal(ranking.actions[:, 0], all_actions(actions)[values.argmax(dim=1)])
    torch.testing.assert_close(ranking.mean, values.mean(dim=1), rtol=1e-3, atol=1e-4)
    assert ranking.is_nearest is None
    np.testing.assert_array_equal(agent.predict(obs.numpy())[0], ranking.actions[:, 0])
    assert rank(agent, obs, top=2 * actions.n).actions.shape[:2] == (len(obs), actions.n)  # each of them once


@pytest.mark.parametrize("at_once", [7, 100_000])
@pytest.mark.parametrize("candidates", SOURCES)
def test_where_every_action_is_a_candidate_the_explanation_has_them_all_by_distance(candidates, at_once, monkeypatch):
    actions = ActionTable(VECTORS[:40])
    agent = fresh(tower_agent(TargetEnv(actions), k=40, candidates=candidates))
    monkeypatch.setattr(AT_ONCE, at_once)
    obs = states()
    why = agent.explain(obs.numpy())
    needs_actor = candidates in ("nearest", "both")
    middle = agent.actor.scale.middle.expand(len(obs), -1)
    proto = (agent.actor(obs) if needs_actor else middle).detach().numpy()
    np.testing.assert_allclose(why.proto, proto, rtol=1e-6)
    np.testing.assert_array_equal(why.actions, actions.nearest(proto, 40))
    values = all_values(agent, obs)
    torch.testing.assert_close(torch.from_numpy(why.q), values.gather(1, torch.from_numpy(why.actions)))
    np.testing.assert_array_equal(why.chosen, values.argmax(dim=1))
    assert (why.sources == "all").all()


def test_everything_needs_neither_actor_nor_lookup(monkeypatch):
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), candidates="all", learning_starts=5)
    monkeypatch.setattr(ActionTable, "nearest", None)
    for actor in (agent.actor, agent.actor_target):
        monkeypatch.setattr(actor, "mu", None)
    assert agent.exploration.epsilon > 0  # noise on a proto-action would move nothing
    agent.learn(30)
    assert agent.explain(np.zeros(3, np.float32)).actions.shape == (300,)


def test_everything_knows_what_was_added_and_removed():
    actions = ActionTable(VECTORS[:50])
    agent = small_agent(TargetEnv(actions), candidates=Everything())
    scramble_all(agent)
    obs = states(40)
    actions.add(VECTORS[50:])
    best = all_values(agent, obs).argmax(dim=1)
    np.testing.assert_array_equal(rank(agent, obs).actions[:, 0], best)
    actions.remove(best.unique().numpy())
    values = all_values(agent, obs)
    values[:, best.unique()] = -torch.inf
    np.testing.assert_array_equal(rank(agent, obs).actions[:, 0], values.argmax(dim=1))


def test_the_nearest_are_found_in_order():
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=6)
    proto = states(9)
    found = agent.policy.behaviour.source.find(States(states(), proto), 6)
    np.testing.assert_array_equal(found.actions, agent.actions.nearest(proto.numpy(), 6))
    assert (found.source, found.nearest_first, found.is_ordered) == ("nearest", True, True)


def test_a_union_holds_the_candidates_of_each_source_in_order_and_says_whose_they_are():
    agent = fresh(tower_agent(k=5, candidates="both"))
    obs = states(40)
    found = agent.explain(obs.numpy())
    protos = agent.actor(obs).detach().numpy()
    np.testing.assert_array_equal(found.actions[:, :5], agent.actions.nearest(protos, 5))
    np.testing.assert_array_equal(found.actions[:, 5:], all_values(agent, obs).topk(5, dim=1).indices)
    for row, source in zip(found.actions, found.sources, strict=True):
        near, best = set(row[:5]), set(row[5:])
        for action, name in zip(row, source, strict=True):
            assert name == ("both" if action in near & best else "nearest" if action in near else "critic")
    assert {"nearest", "critic", "both"} == set(found.sources.flat)


def test_the_other_way_round_the_critics_candidates_come_first():
    agent = fresh(tower_agent(k=5, candidates=Union((BestByCritic(), Nearest()))))
    obs = states(40)
    found = agent.explain(obs.numpy())
    np.testing.assert_array_equal(found.actions[:, :5], all_values(agent, obs).topk(5, dim=1).indices)
    np.testing.assert_array_equal(found.actions[:, 5:], agent.actions.nearest(found.proto, 5))
    assert set(found.sources[:, :5].flat) == {"critic", "both"}
    assert set(found.sources[:, 5:].flat) == {"nearest", "both"}
    assert rank(agent, obs).is_nearest is None  # the first one is not the nearest
    assert rank(fresh(tower_agent(k=5, candidates="both")), obs).is_nearest is not None


@pytest.mark.parametrize("at_once", [1, 40, 100_000])
@pytest.mark.parametrize("space", ["discrete", "multidiscrete"])
def test_a_union_in_parts_is_ranked_as_a_whole(space, at_once, monkeypatch):
    product = ActionProduct([np.linspace(-1, 1, 5)] * 3, space=space)
    agent = fresh(tower_agent(TargetEnv(product), k=8, candidates="both"))
    obs = states(20)
    whole = rank(agent, obs).scored()
    explained = agent.explain(obs.numpy())
    monkeypatch.setattr(AT_ONCE, at_once)
    parts = rank(agent, obs)
    np.testing.assert_array_equal(parts.actions, whole.actions)
    torch.testing.assert_close(parts.values, whole.values)
    torch.testing.assert_close(parts.mean, whole.mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(parts.places, whole.places)
    torch.testing.assert_close(parts.is_nearest, whole.is_nearest)
    again = agent.explain(obs.numpy())
    for name in ("actions", "sources", "chosen"):
        np.testing.assert_array_equal(getattr(again, name), getattr(explained, name))
    np.testing.assert_allclose(again.q, explained.q, rtol=1e-4, atol=1e-5)
    assert again.sources.shape == (20, 16)
    assert "both" in again.sources


def test_of_one_candidate_each_the_critic_picks():
    """candidates="both" has two at k = 1: the nearest, and the one that the critic finds."""
    agent = fresh(tower_agent(k=1, candidates="both"))
    obs = states(40)
    ranking = rank(agent, obs)
    assert ranking.candidates.actions.shape == (40, 2)
    for i, state in enumerate(obs):
        best, q = best_of(agent.critic, state, agent.actions, ranking.candidates.actions[i].numpy())
        assert (ranking.actions[i, 0].item(), ranking.values[i, 0].item()) == (best, pytest.approx(q, rel=1e-4))
    np.testing.assert_array_equal(rank(agent, obs).actions, ranking.actions)  # also if nobody asks for values


class OddOnes(CandidateSource):
    """Every action with an odd number, however few candidates are asked for."""

    needs_actor = False

    def find(self, states, k):
        return Candidates(torch.arange(1, self.actions.n, 2).expand(len(states), -1), "odd")


@pytest.mark.parametrize("k", [1, 8, 300])
def test_a_source_of_the_users_own_is_asked_whatever_k(k):
    agent = small_agent(TargetEnv(ActionTable(VECTORS)), k=k, candidates=OddOnes, exploration=greedy(epsilon=0.1))
    scramble_all(agent)
    obs = states(40)
    values = all_values(agent, obs)
    values[:, ::2] = -torch.inf
    np.testing.assert_array_equal(agent.predict(obs.numpy())[0], values.argmax(dim=1))
    why = agent.explain(obs.numpy())
    np.testing.assert_array_equal(why.actions, np.arange(1, 300, 2)[None].repeat(40, 0))
    assert (why.sources == "odd").all()


def test_three_sources_are_explained_in_full():
    agent = fresh(tower_agent(k=250, candidates=Union((Nearest(), BestByCritic(), OddOnes))))
    why = agent.explain(states().numpy())
    assert why.actions.shape == (7, 250 + 250 + 150)  # more than twice as many as there are actions
    np.testing.assert_array_equal(why.actions[:, 500:], np.arange(1, 300, 2)[None].repeat(7, 0))
    assert set(why.sources[:, 500:].flat) == {"odd", "both"}


def test_a_union_with_all_of_a_is_refused():
    with pytest.raises(ValueError, match=r'Union holds Everything.*give candidates="all"'):
        small_agent(candidates=Union((Nearest(), Everything())))


def test_a_union_has_at_least_two_sources():
    with pytest.raises(ValueError, match="give two or more"):
        Union((Nearest(),))


@pytest.mark.parametrize("bits", [25, 60, 100])
def test_all_of_a_set_that_nobody_can_go_through_is_refused(bits):
    env = TargetEnv(ActionProduct([np.linspace(-1, 1, 2)] * bits), length=5)
    with pytest.raises(TooManyActionsError, match="too large to go through"):
        small_agent(env, candidates="all")


SETTINGS = [
    Nearest(),
    BestByCritic(),
    BestByCritic(refresh_every=7),
    Everything(),
    Union(),
    Union((BestByCritic(refresh_every=3), Nearest())),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_become_json_and_back(settings):
    assert make_source_settings(settings.to_json()) == settings


@pytest.mark.parametrize("settings", SETTINGS)
def test_an_agent_is_saved_with_its_source(settings, tmp_path):
    agent = fresh(tower_agent(k=3, critic=TwoTower(width=4), candidates=settings))
    obs = states()
    agent.predict(obs.numpy())
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    assert loaded.policy_kwargs["candidates"] == settings
    assert type(loaded.policy.behaviour.source) is type(agent.policy.behaviour.source)
    np.testing.assert_array_equal(rank(loaded, obs).actions, rank(agent, obs).actions)
    ours, theirs = (each.explain(obs.numpy()) for each in (agent, loaded))
    np.testing.assert_array_equal(ours.actions, theirs.actions)
    np.testing.assert_array_equal(ours.sources, theirs.sources)


@pytest.mark.parametrize(("name", "settings"), SOURCES.items())
def test_short_names_are_those_of_the_defaults(name, settings):
    assert make_source_settings(name) == settings


def test_unknown_candidates_are_refused():
    names = r'"nearest" or Nearest\(...\), "critic" or BestByCritic\(...\), "both" or Union\(...\), "all" or Everything'
    with pytest.raises(ValueError, match=f"candidates='best': give one of {names}"):
        small_agent(candidates="best")
    with pytest.raises(TypeError, match="candidates=3: give one of"):
        small_agent(candidates=3)


def test_a_source_without_state_refuses_one():
    source = small_agent().policy.behaviour.source
    assert source.state_dict() == {}
    source.load_state_dict({})
    with pytest.raises(ValueError, match="NearestSource keeps no state, the file holds staleness"):
        source.load_state_dict({"staleness": torch.tensor(3)})
