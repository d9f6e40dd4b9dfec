"""Nothing illegal is ever executed or looked at, whoever says what is allowed and however it is found."""

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize

from tests.test_own_parts import Circle, PopularOrNear
from wolpertinger import (
    DDPG,
    TD3,
    ActionProduct,
    ActionTable,
    CheckpointError,
    Exploration,
    NoAllowedActionError,
    OfferedActions,
    UnknownActionError,
    Wolpertinger,
)
from wolpertinger.policy import restricted

from .envs import TargetEnv, greedy, grid, scramble_all, small_agent, value
from .restricted_envs import StockEnv, stock_function

TABLE = grid(12, 2)
SOURCES = {
    "nearest": {"k": 4},
    "one": {"k": 1},
    "critic": {"k": 3, "critic": "two-tower", "candidates": "critic"},
    "both": {"k": 3, "critic": "two-tower", "candidates": "both"},
    "all": {"candidates": "all"},
    "own": {"k": 4, "candidates": PopularOrNear},
}
OBS = np.random.default_rng(3).uniform(-1, 1, (6, 2)).astype(np.float32)


@pytest.fixture(params=[2048, 5], ids=["few", "many"])
def direct(request, monkeypatch):
    monkeypatch.setattr(restricted, "DIRECT", request.param)
    return request.param


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("share", ["one", 0.2, "all but one"])
def test_no_illegal_action_is_executed(source, share, direct):
    actions = grid(32, 2) if source == "own" else TABLE
    env = StockEnv(actions, share=share, length=5)
    small_agent(env, learning_starts=10, **SOURCES[source]).learn(30)
    assert len(env.executed) == 30
    assert env.illegal == 0


@pytest.mark.parametrize("say", ["ids", "masks", "info", "function"])
def test_whoever_says_it(say, direct):
    env = StockEnv(TABLE, say=say, length=4, cut=True)
    extra = {"allowed": stock_function(env)} if say == "function" else {}
    agent = small_agent(env, learning_starts=10, **extra).learn(40)
    assert env.illegal == 0
    assert hasattr(agent.replay_buffer, "allowed_store") == (say != "function")


@pytest.mark.parametrize("learner", [DDPG(target_samples=4), DDPG(gradient_at="action", anchor=0.1), TD3()], ids=str)
def test_every_learner_obeys_a_function(learner, direct):
    env = StockEnv(TABLE, say="function", length=4)
    small_agent(env, learning_starts=10, learner=learner, allowed=stock_function(env)).learn(30)
    assert env.illegal == 0


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("learner", [DDPG(), DDPG(target_samples=4), TD3()], ids=lambda own: type(own).__name__)
def test_targets_look_at_what_the_next_state_allows(monkeypatch, direct, n_steps, cut, learner):
    env = StockEnv(TABLE, length=4, cut=cut)
    agent = small_agent(env, n_steps=n_steps, learning_starts=30, learner=learner, buffer_size=25).learn(40)
    batch = agent._sample(200)
    assert len(batch.next_allowed) == 200
    for row in range(200):
        if batch.discounts[row]:
            expected = np.sort(env.stock(batch.next_obs[row].numpy()))
            np.testing.assert_array_equal(batch.next_allowed.states[row], expected)
    assert (batch.discounts > 0).any()
    ranking = agent.learner._rank_next(batch)
    assert np.all(batch.next_allowed.holds(ranking.actions.numpy()))


@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_pool_lets_go_what_is_overwritten(monkeypatch, n_envs):
    monkeypatch.setattr("wolpertinger.agent.allowed_store.BLOCK", 100)
    env = DummyVecEnv([lambda: StockEnv(TABLE, length=4, cut=True, say="info")] * n_envs)
    agent = small_agent(env, buffer_size=20 * n_envs, learning_starts=1000).learn(150 * n_envs)
    store = agent.replay_buffer.allowed_store
    own = 4 * 29 * 20 * n_envs
    assert store.pool.length.sum() * 4 <= own
    assert store.nbytes < 12 * 20 * n_envs + 1.5 * own + 2 * 4 * 100
    batch = agent._sample(300)
    for row in np.flatnonzero(batch.discounts.numpy()):
        expected = np.sort(env.envs[0].unwrapped.stock(batch.next_obs[row].numpy()))
        np.testing.assert_array_equal(batch.next_allowed.states[row], expected)


def test_an_unknown_last_state_is_taken_as_terminated():
    env = DummyVecEnv([lambda: StockEnv(TABLE, length=4, cut=True)])  # the method answers for the next episode
    with pytest.warns(UserWarning, match="nobody says what its last state allows"):
        agent = small_agent(env, learning_starts=100).learn(20)
    assert agent.replay_buffer.timeouts.sum() == 0
    assert agent.replay_buffer.dones.sum() == 5


@pytest.mark.filterwarnings("ignore:an episode was cut")
@pytest.mark.parametrize("vec_env", [DummyVecEnv, SubprocVecEnv])
def test_several_environments(vec_env):
    env = vec_env([_make_env] * 2)
    agent = small_agent(env, learning_starts=10).learn(24)
    assert sum(env.get_attr("illegal")) == 0
    assert agent.restrictions.from_env
    env.close()


def _make_env():
    return StockEnv(grid(12, 2), length=4)


@pytest.mark.parametrize("say", ["ids", "info"])
def test_gymnasium_vector_environments(say):
    envs = [lambda: StockEnv(TABLE, say=say, length=4)] * 3
    env = SyncVectorEnv(envs, autoreset_mode=AutoresetMode.SAME_STEP)
    agent = small_agent(env, learning_starts=12).learn(36)
    assert sum(own.illegal for own in env.envs) == 0
    assert agent.restrictions.from_env


@pytest.mark.parametrize("n_steps", [1, 2])
def test_a_function_gets_observations_that_are_not_normalised(n_steps):
    inner = StockEnv(TABLE, say="function", length=4, cut=True)
    env = VecNormalize(VecMonitor(DummyVecEnv([lambda: inner])), clip_obs=1.0)
    agent = small_agent(env, learning_starts=10, allowed=stock_function(inner), n_steps=n_steps).learn(40)
    assert inner.illegal == 0
    batch = agent._sample(50)
    assert batch.next_obs.abs().max() <= 1.0
    for row in range(50):  # unnormalised where nothing was clipped
        if (batch.next_obs[row].abs() < 1).all():
            original = env.unnormalize_obs(batch.next_obs[row].numpy())
            near = [np.abs(original - kept[0]).max() for kept in agent.replay_buffer.next_observations[:40]]
            expected = inner.stock(agent.replay_buffer.next_observations[int(np.argmin(near)), 0])
            np.testing.assert_array_equal(batch.next_allowed.states[row], np.sort(expected))


@pytest.mark.parametrize("say", ["ids", "info"])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_environments_behind_vec_normalize_are_asked_themselves(say, n_steps):
    inner = StockEnv(TABLE, say=say, length=4)
    env = VecNormalize(VecMonitor(DummyVecEnv([lambda: inner])), clip_obs=1.0)
    agent = small_agent(env, learning_starts=10, n_steps=n_steps).learn(40)
    assert inner.illegal == 0
    agent._sample(100)
    _, last, envs = agent.replay_buffer.allowed_store._places
    allowed, _ = agent.replay_buffer.allowed_store.sampled()
    kept = agent.replay_buffer.next_observations[last, envs]  # as the environment gave them
    for row in np.flatnonzero(agent.replay_buffer.dones[last, envs] == 0):
        np.testing.assert_array_equal(allowed.states[row], np.sort(inner.stock(kept[row])))


def test_predicting_obeys_what_it_is_told(direct):
    agent = small_agent(TargetEnv(TABLE))
    scramble_all(agent)
    allowed = [np.random.default_rng(row).choice(144, row + 3, replace=False) for row in range(6)]
    actions, _ = agent.predict(OBS, allowed=allowed)
    assert all(action in own for action, own in zip(actions, allowed, strict=True))
    for obs, action, own in zip(OBS, actions, allowed, strict=True):
        assert agent.predict(obs, allowed=own)[0] == action
        assert agent.explain(obs, allowed=own).chosen == action
        assert np.isin(agent.explain(obs, allowed=own).actions, own).all()
    why = agent.explain(OBS, allowed=allowed)
    np.testing.assert_array_equal(why.chosen, actions)
    assert all(np.isin(found, own).all() for found, own in zip(why.actions, allowed, strict=True))


def test_predicting_asks_for_what_an_observation_does_not_tell():
    env = StockEnv(TABLE, length=4)
    agent = small_agent(env).learn(5)
    for ask in (agent.predict, agent.explain, agent.rank):
        with pytest.raises(ValueError, match=rf"{ask.__name__}\(obs\): the agent learned in environments that say"):
            ask(OBS)
    vec_env = DummyVecEnv([lambda: StockEnv(TABLE, length=4)])
    evaluate_policy(agent.acting_in(vec_env), vec_env, n_eval_episodes=5, warn=False)
    assert vec_env.envs[0].illegal == 0
    with pytest.raises(ValueError, match="has none of the methods allowed_actions, action_masks"):
        agent.acting_in(DummyVecEnv([lambda: TargetEnv(TABLE)]))


def ranked_by_a_loop(agent, obs, candidates, top):
    values = [value(agent.critic, torch.from_numpy(obs), agent.actions.embed(action)) for action in candidates]
    order = np.argsort(-np.array(values), kind="stable")[:top]
    return np.asarray(candidates)[order], np.array(values)[order]


@pytest.mark.parametrize("source", ["nearest", "one", "critic", "all"])
@pytest.mark.parametrize("top", [1, 5, 500])
def test_a_ranked_list_equals_a_loop(source, top):
    agent = small_agent(TargetEnv(TABLE), **SOURCES[source])
    scramble_all(agent)
    agent.policy.predictor.source.critic_updated()
    found = agent.rank(OBS, top=top)
    for row, obs in enumerate(OBS):
        k = min(144, max(agent.k, top))
        if source in ("nearest", "one"):
            proto = agent.actor(torch.from_numpy(obs[None])).detach().numpy()
            candidates = TABLE.nearest(proto, k)[0]
        else:
            candidates = np.arange(144)
        actions, values = ranked_by_a_loop(agent, obs, candidates, min(top, k))
        np.testing.assert_array_equal(found.actions[row], actions)
        np.testing.assert_allclose(found.values[row], values, rtol=1e-4, atol=1e-5)
        one = agent.rank(obs, top=top)
        np.testing.assert_array_equal(one.actions, actions)
        if source != "all":
            assert set(one.sources) == {"nearest" if source in ("nearest", "one") else "critic"} or k == 144
    if source == "nearest":
        proto = agent.actor(torch.from_numpy(OBS)).detach().numpy()
        expected = np.linalg.norm(TABLE.embed(found.actions) - proto[:, None], axis=-1)
        np.testing.assert_allclose(found.distances, expected, rtol=1e-4)


def test_a_ranked_list_of_two_sources_names_each_action_once():
    agent = small_agent(TargetEnv(TABLE), **{**SOURCES["both"], "k": 30})
    scramble_all(agent)
    found = agent.rank(OBS, top=100)
    assert {"nearest", "critic", "both", ""} >= set(found.sources.ravel())
    for actions, values in zip(found.actions, found.values, strict=True):
        real = ~np.isneginf(values)
        assert len(set(actions[real].tolist())) == real.sum()
        assert (actions[~real] == actions[0]).all()
        assert (np.diff(values) <= 0).all()


def test_a_ranked_list_has_what_is_allowed_first(direct):
    agent = small_agent(TargetEnv(TABLE), k=8)
    scramble_all(agent)
    allowed = [np.arange(0, 144, 10 * (row + 1)) for row in range(6)]
    found = agent.rank(OBS, top=4, allowed=allowed)
    for row, own in enumerate(allowed):
        if len(own) <= direct:
            actions, values = ranked_by_a_loop(agent, OBS[row], own, 4)
            np.testing.assert_array_equal(found.actions[row, : len(actions)], actions)
            np.testing.assert_allclose(found.values[row, : len(actions)], values, rtol=1e-4, atol=1e-5)
        assert np.isin(found.actions[row], own).all()
        assert np.isneginf(found.values[row, len(own) :]).all()
        assert (found.sources[row, len(own) :] == "").all()
    with pytest.raises(ValueError, match="top=0: give a whole number from 1 to 16777216"):
        agent.rank(OBS, top=0)


class EmptyEnv(StockEnv):
    """From its third step on nothing is allowed, or something outside the set."""

    wrong = ()

    def stock(self, target):
        return np.array(self.wrong, np.int64) if self.step_number >= 3 else np.arange(5)


def test_nothing_allowed_names_environment_and_step():
    with pytest.raises(NoAllowedActionError, match=r"environment 0 at step 3 allows no action"):
        small_agent(EmptyEnv(TABLE, length=9)).learn(20)
    with pytest.raises(NoAllowedActionError, match="state 1 allows no action"):
        small_agent(TargetEnv(TABLE)).predict(OBS[:2], allowed=[[3], []])


def test_an_action_outside_the_set_names_environment_and_step():
    env = EmptyEnv(TABLE, length=9)
    env.wrong = (3, 144)
    with pytest.raises(UnknownActionError, match=r"environment 0 at step 3 allows action 144, which is not in Action"):
        small_agent(env).learn(20)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"gradient_at=.action. looks up actions in the states"):
        small_agent(StockEnv(TABLE), learner=DDPG(gradient_at="action")).learn(5)
    with pytest.raises(TypeError, match=r"allowed=\[3\]: give a function"):
        small_agent(TargetEnv(TABLE), allowed=[3])
    with pytest.raises(ValueError, match="is given for 2 states: give one entry for each of 6"):
        small_agent(TargetEnv(TABLE)).predict(OBS, allowed=[[1], [2]])
    with pytest.raises(ValueError, match=r"state 0: a mask of shape \(3,\); give \(144,\)"):
        small_agent(TargetEnv(TABLE)).predict(OBS[:1], allowed=[np.ones(3, np.bool_)])


def test_guided_exploration_stays_within_what_is_allowed():
    class Guided(StockEnv):
        def guided_actions(self):
            return np.concatenate([self.stock(self.target)[:2], [0, 1, 2]])

    env = Guided(TABLE, length=5, share=0.05)
    small_agent(env, exploration=greedy(epsilon=1.0, guided=1.0), learning_starts=100).learn(60)
    assert env.illegal == 0


@pytest.mark.parametrize("say", ["ids", "function"])
def test_checkpoints(tmp_path, say):
    env = StockEnv(TABLE, say=say, length=4, cut=True)
    extra = {"allowed": stock_function(env)} if say == "function" else {}
    agent = small_agent(env, learning_starts=10, buffer_size=20, **extra).learn(30)
    agent.save(tmp_path / "agent.zip", include=["replay_buffer"])
    agent.save_replay_buffer(tmp_path / "buffer.zip")
    if say == "function":
        with pytest.raises(CheckpointError, match="saved with allowed of the user's own: give it to load again"):
            Wolpertinger.load(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", env=env, **extra)
    allowed = [np.arange(row, row + 9) for row in range(6)]
    np.testing.assert_array_equal(loaded.predict(OBS, allowed=allowed)[0], agent.predict(OBS, allowed=allowed)[0])
    if say == "ids":
        with pytest.raises(ValueError, match="learned in environments that say what they allow"):
            Wolpertinger.load(tmp_path / "agent.zip").predict(OBS)
        for buffer in (loaded, small_agent(env, learning_starts=10, buffer_size=20)):
            if buffer is not loaded:
                buffer.load_replay_buffer(tmp_path / "buffer.zip")
            ours, theirs = (own.replay_buffer.allowed_store.pool for own in (agent, buffer))
            places = np.nonzero(ours.length)
            for mine, other in zip(ours.read(*places), theirs.read(*places), strict=True):
                np.testing.assert_array_equal(mine, other)
    loaded.learn(20, reset_num_timesteps=False)
    assert env.illegal == 0


@pytest.mark.parametrize(
    "actions",
    [
        ActionProduct([np.linspace(-1, 1, 6)] * 3, space="discrete"),
        ActionProduct([np.linspace(-1, 1, 6)] * 3, space="multidiscrete"),
        ActionProduct([np.linspace(-1, 1, 21)] * 60),
    ],
    ids=["ids", "digits", "huge"],
)
def test_allowed_levels(actions, direct):
    env = StockEnv(actions, say="levels", share=0.5, length=4, cut=True)
    agent = small_agent(env, learning_starts=10, k=3).learn(30)
    assert env.illegal == 0
    batch = agent._sample(50)
    assert np.all(batch.next_allowed.holds(agent.learner._rank_next(batch).actions.numpy()))


def test_digits_of_a_product(direct):
    env = StockEnv(ActionProduct([np.linspace(-1, 1, 6)] * 3, space="multidiscrete"), length=4)
    small_agent(env, learning_starts=10, k=3).learn(30)
    assert env.illegal == 0


def test_a_set_of_ones_own(direct):
    env = StockEnv(Circle(360), length=4)
    small_agent(env, learning_starts=10, k=3).learn(30)
    assert env.illegal == 0


@pytest.mark.parametrize("index", ["Flat", "IVF4,Flat", "HNSW8"])
def test_every_index(index, direct):
    env = StockEnv(ActionTable(TABLE.vectors, index=index), length=4, share=0.5)
    small_agent(env, learning_starts=10, k=3).learn(30)
    assert env.illegal == 0


class Cards(TargetEnv):
    """A hand of cards, whose vectors nobody knows in advance: the reward is minus the distance to the target."""

    def __init__(self, say="method", **kwargs):
        super().__init__(OfferedActions(50, 2), length=5, **kwargs)
        self.say, self.illegal = say, 0
        if say == "method":
            self.allowed_actions = lambda: self.hand(self.target)

    def hand(self, target):
        rng = np.random.default_rng(np.frombuffer(np.asarray(target).tobytes(), np.uint32).tolist())
        ids = rng.choice(50, rng.integers(1, 8), replace=False)
        return ids, rng.uniform(-1, 1, (len(ids), 2)).astype(np.float32)

    def step(self, action):
        ids, vectors = self.hand(self.target)
        self.illegal += action not in ids
        reward = -float(np.linalg.norm(vectors[np.flatnonzero(ids == action)[0]] - self.target))
        self.step_number += 1
        self._draw()
        return self.observe(), reward, self.step_number == self.length, False, {}


@pytest.mark.parametrize("say", ["method", "function"])
@pytest.mark.parametrize("source", ["nearest", "all", "critic"])
def test_vectors_that_come_with_the_state(say, source, direct):
    env = Cards(say=say)
    extra = {"allowed": lambda obs: [env.hand(own) for own in obs]} if say == "function" else {}
    agent = small_agent(env, learning_starts=10, **SOURCES[source], **extra).learn(40)
    assert env.illegal == 0
    batch = agent._sample(40)
    for row in range(40):
        ids, vectors = env.hand(batch.obs[row].numpy())
        expected = vectors[np.flatnonzero(ids == int(batch.actions[row]))[0]]
        np.testing.assert_array_equal(batch.vectors[row].numpy(), expected)
        if batch.discounts[row]:
            ids, vectors = env.hand(batch.next_obs[row].numpy())
            order = np.argsort(ids)
            np.testing.assert_array_equal(batch.next_allowed.states[row], ids[order])
            np.testing.assert_array_equal(batch.next_allowed.own_vectors[row], vectors[order])
    ids, vectors = env.hand(OBS[0])
    ranked = agent.rank(OBS[0], allowed=(ids, vectors), top=20)
    state = torch.from_numpy(OBS[0])
    by_loop = sorted(zip(ids, vectors, strict=True), key=lambda pair: -value(agent.critic, state, pair[1]))
    if direct > 50:
        assert ranked.actions.tolist() == [pair[0] for pair in by_loop]


def test_offered_actions_need_an_offer():
    with pytest.raises(ValueError, match=r"nobody offers them\. Give the environment a method allowed_actions"):
        small_agent(TargetEnv(OfferedActions(50, 2)), candidates="all").learn(5)
    with pytest.raises(ValueError, match="comes without vectors: give"):
        small_agent(Cards(), candidates="all").predict(OBS[0], allowed=[1, 2])
    with pytest.raises(ValueError, match="has vectors of its own: give ids"):
        small_agent(TargetEnv(TABLE)).predict(OBS[0], allowed=([1], np.zeros((1, 2))))


def test_her_buffers_need_a_function():
    class Her(HerReplayBuffer):
        pass

    agent = small_agent(StockEnv(TABLE), learning_starts=1)
    agent.replay_buffer.__class__ = Her
    with pytest.raises(ValueError, match="Her does not say which transitions it sampled"):
        agent.learn(3)


def test_noise_that_explores_nothing_is_warned_of_once():
    with pytest.warns(UserWarning, match="so few actions are allowed that all of them are candidates") as warned:
        small_agent(StockEnv(TABLE, length=4), exploration=Exploration(), learning_starts=5).learn(15)
    assert len(warned) == 1
