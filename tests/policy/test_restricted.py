"""Choice and ranked lists under random restrictions, against loops over the allowed actions: every source and set."""

import numpy as np
import pytest
import torch

from tests.agent.envs import TargetEnv, all_actions, scramble_all, small_agent, value
from tests.test_own_parts import Circle
from wolpertinger import ActionProduct, ActionTable, Candidates, CandidateSource, States
from wolpertinger.actions import Levels, read_allowed
from wolpertinger.learners import Batch
from wolpertinger.policy import restricted

VECTORS = np.random.default_rng(5).uniform([-2, 0, 10], [2, 1, 30], size=(60, 3)).astype(np.float32)
LEVELS = [np.linspace(-2, 2, 5), np.linspace(0, 1, 4), np.linspace(10, 30, 3)]
SETS = {
    **{f"table {index}": ActionTable(VECTORS, index=index) for index in ("exact", "Flat", "IVF4,Flat", "HNSW16")},
    **{f"product {space}": ActionProduct(LEVELS, space=space) for space in ("discrete", "multidiscrete")},
    "own": Circle(60),
}
BATCH, K = 6, 4


class Backwards(CandidateSource):
    """A user's own source, which knows nothing of what is allowed: always the last k actions."""

    needs_actor = False

    def find(self, states, k):
        last = all_actions(self.actions)[::-1][:k].copy()
        return Candidates(torch.from_numpy(last).expand(len(states), *last.shape), "backwards")


class Stubborn(Backwards):
    """One that finds the same action, whatever is asked."""

    def find(self, states, k):
        return super().find(states, 1)


SOURCES = {
    "nearest": {},
    "critic": {"critic": "two-tower", "candidates": "critic"},
    "both": {"critic": "two-tower", "candidates": "both"},
    "all": {"candidates": "all"},
    "backwards": {"candidates": Backwards},
    "stubborn": {"candidates": Stubborn},
}


@pytest.fixture(params=SETS)
def actions(request):
    return SETS[request.param]


@pytest.fixture(params=[2048, 2], ids=["few", "many"])
def direct(request, monkeypatch):
    monkeypatch.setattr(restricted, "DIRECT", request.param)
    return request.param


def restrictions(kind):
    """Places of what six states allow, among all 60 actions."""
    rng = np.random.default_rng(0)
    sizes = {
        "one": [1] * BATCH,
        "all but one": [59] * BATCH,
        "some": [3, 5, 12, 20, 31, 50],
        "mixed": [1, 59, 2, 30, 60, 4],
    }
    return [np.sort(rng.choice(60, size, replace=False)) for size in sizes[kind]]


def make(actions, source):
    agent = small_agent(TargetEnv(actions), k=K, **SOURCES[source])
    scramble_all(agent)
    for policy in (agent.policy.behaviour, agent.policy.predictor):
        policy.source.critic_updated()
        policy.source.expire()
    obs = torch.as_tensor(np.random.default_rng(1).uniform(-1, 1, (BATCH, actions.dim)).astype(np.float32))
    proto = np.random.default_rng(2).uniform(actions.low, actions.high, (BATCH, actions.dim)).astype(np.float32)
    return agent, obs, torch.from_numpy(proto)


def key(action):
    return tuple(np.atleast_1d(action).tolist())


def candidates_by_a_loop(agent, source, actions, own, state, proto, direct):
    """What the sources are to find of one state's allowed actions, without regard to order."""
    if len(own) <= max(K, direct) or source in ("all", "stubborn"):
        last = key(all_actions(actions)[-1])
        is_found = source == "stubborn" and len(own) > max(K, direct) and last in map(key, own)
        return {last} if is_found else set(map(key, own))
    found = set()
    if source in ("nearest", "both"):
        distances = ((actions.embed(own).astype(np.float64) - proto.astype(np.float64)) ** 2).sum(axis=1)
        found |= {key(own[place]) for place in np.argsort(distances, kind="stable")[:K]}
    if source in ("critic", "both"):
        values = [value(agent.critic, state, actions.embed(action)) for action in own]
        found |= {key(own[place]) for place in np.argsort(values)[::-1][:K]}
    return found or set(map(key, own[::-1][:K]))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", ["one", "some", "mixed", "all but one"])
def test_the_choice_equals_a_loop_over_what_is_allowed(actions, source, kind, direct):
    agent, obs, proto = make(actions, source)
    own = [all_actions(actions)[places] for places in restrictions(kind)]
    states = States(obs, proto, read_allowed(own, actions))
    ranking = agent.policy.behaviour.rank(states, agent.critic, top=1_000)
    best = agent.policy.behaviour.rank(states, agent.critic)
    for row, state in enumerate(obs):
        expected = candidates_by_a_loop(agent, source, actions, own[row], state, proto[row].numpy(), direct)
        real = ~ranking.values[row].isneginf()
        found = [key(action) for action in ranking.actions[row][real].numpy()]
        assert set(found) == expected
        values = {action: value(agent.critic, state, actions.embed(np.reshape(action, actions.space.shape)))
                  for action in expected}  # fmt: skip
        expected_values = sorted((values[action] for action in found), reverse=True)
        np.testing.assert_allclose(ranking.values[row][real], expected_values, rtol=1e-4, atol=1e-5)
        assert values[key(best.actions[row, 0].numpy())] == pytest.approx(max(values.values()), rel=1e-4, abs=1e-5)
        assert ranking.mean[row].item() == pytest.approx(np.mean([values[a] for a in found]), rel=1e-3, abs=1e-4)
        padding = ranking.actions[row][~real].numpy()
        assert all(key(action) == found[0] for action in padding)
        assert (ranking.sources()[row][~real.numpy()] == "").all()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", ["one", "some", "mixed", "all but one"])
def test_targets_equal_a_loop_over_what_is_allowed(actions, source, kind, direct):
    """Line 13: the target actor's candidates among what the next states allow, valued by the target critic."""
    agent, obs, _ = make(actions, source)
    own = [all_actions(actions)[places] for places in restrictions(kind)]
    executed = torch.from_numpy(np.stack([row[0] for row in own]))
    zeros = torch.zeros(BATCH)
    batch = Batch(obs, executed, zeros, obs, zeros + 0.9, next_allowed=read_allowed(own, actions))
    with torch.no_grad():
        ranking, protos = agent.learner._rank_next(batch), agent.actor_target(obs).numpy()
    for row, state in enumerate(obs):
        found = candidates_by_a_loop(agent, source, actions, own[row], state, protos[row], direct)
        values = {action: value(agent.critic_target, state, actions.embed(np.reshape(action, actions.space.shape)))
                  for action in found}  # fmt: skip
        assert ranking.values[row, 0].item() == pytest.approx(max(values.values()), rel=1e-4, abs=1e-5)
        assert values[key(ranking.actions[row, 0].numpy())] == pytest.approx(max(values.values()), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("at_once", [1, 7, 50])
def test_blocks_and_parts_change_nothing(actions, at_once, monkeypatch):
    agent, obs, proto = make(actions, "nearest")
    own = [all_actions(actions)[places] for places in restrictions("mixed")]
    states = States(obs, proto, read_allowed(own, actions))
    whole = agent.policy.behaviour.rank(states, agent.critic, top=5)
    expected = whole.actions, whole.values
    monkeypatch.setattr(restricted, "AT_ONCE", at_once)
    monkeypatch.setattr(restricted, "PADDED", 3 * at_once)
    parts = agent.policy.behaviour.rank(states, agent.critic, top=5)
    assert torch.equal(parts.actions, expected[0])
    torch.testing.assert_close(parts.values, expected[1])


def test_many_allowed_ones_are_looked_up_or_scanned(monkeypatch, direct):
    """The same by a scan of the allowed ones as by a lookup for more."""
    agent, obs, proto = make(SETS["table exact"], "both")
    own = [all_actions(SETS["table exact"])[places] for places in restrictions("all but one")]
    states = States(obs, proto, read_allowed(own, SETS["table exact"]))
    found = []
    for scanned in (0, 10**9):
        monkeypatch.setattr("wolpertinger.actions.nearest_allowed.SCANNED", scanned)
        found.append(agent.policy.behaviour.rank(states, agent.critic, top=100).actions)
    assert torch.equal(*found)


@pytest.mark.parametrize("space", ["discrete", "multidiscrete"])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_levels_are_folded_exactly(space, k):
    actions, rng = ActionProduct(LEVELS, space=space), np.random.default_rng(0)
    protos = rng.uniform(actions.low - 1, actions.high + 1, (40, 3))
    given = [Levels([rng.choice(n, rng.integers(1, n + 1), replace=False) for n in actions.factors]) for _ in protos]
    allowed = read_allowed(given, actions)
    found = actions.nearest_allowed(protos, k, allowed)
    for row, own in enumerate(allowed.listed().states):
        digits = own if space == "multidiscrete" else actions.digits(own)
        levels = np.stack([LEVELS[factor][digits[:, factor]] for factor in range(3)], axis=1)
        point = protos[row].astype(np.float32).astype(np.float64)
        distances = ((levels - point) ** 2).cumsum(axis=1)[:, -1]
        np.testing.assert_array_equal(found.states[row], own[np.argsort(distances, kind="stable")[:k]])
