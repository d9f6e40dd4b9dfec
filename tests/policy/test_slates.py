"""Slates against loops: slot by slot, and the top items by their single values."""

from itertools import permutations

import numpy as np
import pytest
import torch

from tests.agent.envs import TargetEnv, greedy, scramble_all, small_agent, value
from wolpertinger import MLP, ActionTable, PerItem, Slate, TwoTower, Wolpertinger
from wolpertinger.actions import read_allowed
from wolpertinger.learners import Batch
from wolpertinger.policy import restricted

ITEMS = ActionTable(np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32))
OBS = np.random.default_rng(3).uniform(-1, 1, (6, 6)).astype(np.float32)
SLATES = Slate(ITEMS, size=3)


class SlateEnv(TargetEnv):
    """Keeps count of slates that hold an item twice, or one that is not in stock."""

    def __init__(self, slates=SLATES, stock=None):
        super().__init__(slates, length=5)
        self.stock, self.wrong = stock, 0
        if stock:
            self.allowed_actions = self._in_stock

    def _in_stock(self):
        rng = np.random.default_rng(np.frombuffer(self.target.tobytes(), np.uint32).tolist())
        return rng.choice(9, self.stock, replace=False)

    def step(self, action):
        self.wrong += not self.set.holds(action)
        self.wrong += bool(self.stock) and not np.isin(action, self._in_stock()).all()
        return super().step(action)


def slot_by_slot(agent, state, proto, k, allowed=range(9)):
    """The sequential policy as a loop, one slate at a time."""
    allowed = np.sort(list(allowed))
    near = [allowed[np.argsort(np.linalg.norm(ITEMS.vectors[allowed] - part, axis=1))] for part in proto.reshape(3, 2)]
    slate = []
    for order in near:
        slate.append(next(item for item in order if item not in slate))
    for slot, order in enumerate(near):
        tried = []
        for item in [item for item in order[: k + 2] if item not in slate[:slot]][:k]:
            other = [slate[slot] if now == item else now for now in slate]
            other[slot] = item
            tried.append(other)
        slate = max(tried, key=lambda own: value(agent.critic, state, SLATES.embed(own)))
    return slate


@pytest.mark.parametrize("k", [1, 3, 9])
@pytest.mark.parametrize("critic", [MLP(), MLP(interaction=True)], ids=["mlp", "interaction"])
def test_slots_are_filled_as_a_loop_would(k, critic):
    agent = small_agent(SlateEnv(), candidates="slots", critic=critic, k=k)
    scramble_all(agent)
    slates, _ = agent.predict(OBS)
    for row, state in enumerate(torch.from_numpy(OBS)):
        proto = agent.actor(state[None])[0].detach().numpy()
        assert slates[row].tolist() == slot_by_slot(agent, state, proto, k)


@pytest.mark.parametrize("k", [1, 3])
def test_slots_are_filled_from_what_is_allowed(k, monkeypatch):
    monkeypatch.setattr(restricted, "DIRECT", 3)
    agent = small_agent(SlateEnv(), candidates="slots", k=k)
    scramble_all(agent)
    allowed = [np.random.default_rng(row).choice(9, 4 + row % 5, replace=False) for row in range(6)]
    slates, _ = agent.predict(OBS, allowed=allowed)
    for row, state in enumerate(torch.from_numpy(OBS)):
        proto = agent.actor(state[None])[0].detach().numpy()
        assert slates[row].tolist() == slot_by_slot(agent, state, proto, k, allowed[row])


@pytest.mark.parametrize(
    "of", [TwoTower(width=4), TwoTower(width=4, linear=True), MLP(), MLP(interaction=True)], ids=str
)
@pytest.mark.parametrize("direct", [2048, 3])
def test_the_top_items_are_the_best_of_all_slates(of, direct, monkeypatch):
    monkeypatch.setattr(restricted, "DIRECT", direct)
    agent = small_agent(SlateEnv(), candidates="top", critic=PerItem(of), policy_kwargs={"n_critics": 1})
    scramble_all(agent)
    slates, _ = agent.predict(OBS)
    allowed = [np.sort(np.random.default_rng(row).choice(9, 5, replace=False)) for row in range(6)]
    restricted_slates, _ = agent.predict(OBS, allowed=allowed)
    for row, state in enumerate(torch.from_numpy(OBS)):
        for found, items in ((slates[row], range(9)), (restricted_slates[row], allowed[row])):
            values = [value(agent.critic, state, SLATES.embed(own)) for own in permutations(items, 3)]
            assert value(agent.critic, state, SLATES.embed(found)) == pytest.approx(max(values), rel=1e-4, abs=1e-6)
            assert set(found) <= set(items)
            assert len(set(found)) == 3


@pytest.mark.parametrize("direct", [2048, 3])
def test_targets_are_the_best_of_the_allowed_slates(direct, monkeypatch):
    monkeypatch.setattr(restricted, "DIRECT", direct)
    agent = small_agent(SlateEnv(), candidates="top", critic=PerItem(MLP()))
    scramble_all(agent)
    agent.critic_target.load_state_dict(agent.critic.state_dict())  # candidates go by the critic
    allowed = [np.sort(np.random.default_rng(row).choice(9, 3 + row, replace=False)) for row in range(6)]
    obs, zeros = torch.from_numpy(OBS), torch.zeros(6)
    slates = torch.from_numpy(SLATES.sample(np.random.default_rng(0), 6))
    batch = Batch(obs, slates, zeros, obs, zeros + 0.9, next_allowed=read_allowed(allowed, SLATES))
    found = agent.learner._rank_next(batch)
    for row, state in enumerate(obs):
        values = [value(agent.critic_target, state, SLATES.embed(own)) for own in permutations(allowed[row], 3)]
        assert found.values[row, 0].item() == pytest.approx(max(values), rel=1e-4, abs=1e-6)
        assert set(found.actions[row, 0].tolist()) <= set(allowed[row].tolist())


def test_a_per_item_critic_is_the_mean_over_slots():
    agent = small_agent(SlateEnv(), candidates="slots", critic=PerItem(TwoTower(width=4)))
    scramble_all(agent)
    state = torch.from_numpy(OBS[0])
    one = [value(agent.critic, state, SLATES.embed([item] * 3)) for item in range(9)]
    assert value(agent.critic, state, SLATES.embed([4, 0, 8])) == pytest.approx(
        np.mean([one[4], one[0], one[8]]), rel=1e-4
    )


@pytest.mark.parametrize("stock", [None, 3, 5])
@pytest.mark.parametrize("direct", [2048, 3])
@pytest.mark.parametrize(
    "settings",
    [{"candidates": "slots", "k": 4}, {"candidates": "top", "critic": "per-item"}, {"candidates": "nearest", "k": 4}],
    ids=["slots", "top", "nearest"],
)
def test_no_slate_holds_an_item_twice(settings, stock, direct, monkeypatch):
    monkeypatch.setattr(restricted, "DIRECT", direct)
    env = SlateEnv(stock=stock)
    agent = small_agent(env, learning_starts=10, exploration=greedy(epsilon=0.3), **settings).learn(40)
    assert len(env.executed) == 40
    assert env.wrong == 0
    assert agent.replay_buffer.actions.shape[-1] == 3


def test_items_may_repeat_if_they_are_allowed_to():
    slates = Slate(ITEMS, size=3, repeats=True)
    agent = small_agent(SlateEnv(slates), candidates="top", critic="per-item").learn(30)
    slate, _ = agent.predict(OBS[0])
    assert len(set(slate.tolist())) == 1


def test_slates_are_saved_and_loaded(tmp_path):
    agent = small_agent(SlateEnv(), candidates="top", critic=PerItem(MLP())).learn(30)
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    np.testing.assert_array_equal(loaded.predict(OBS)[0], agent.predict(OBS)[0])
    assert isinstance(loaded.actions, Slate)
    assert loaded._arguments["critic"] == PerItem(MLP())


def test_the_default_is_the_top_items():
    agent = Wolpertinger("MlpPolicy", SlateEnv(), learning_starts=10, buffer_size=100)
    assert isinstance(agent._arguments["critic"], PerItem)
    agent.learn(30)
    assert agent.rank(OBS[0]).actions.shape == (1, 3)


def test_what_is_not_for_slates_is_refused():
    for settings in ({"candidates": "slots"}, {"candidates": "top"}):
        with pytest.raises(TypeError, match=r"makes slates of .*: give actions=Slate"):
            small_agent(TargetEnv(ITEMS), **settings)
    with pytest.raises(ValueError, match='critic="per-item" is for slates'):
        small_agent(TargetEnv(ITEMS), critic="per-item")
    with pytest.raises(ValueError, match='candidates="top" needs values of single items'):
        small_agent(SlateEnv(), candidates="top")
