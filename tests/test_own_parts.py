"""An action set and a candidate source as a user would write them: each trains, explains, saves and loads."""

import inspect
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from tests.agent.envs import TargetEnv, best_of, scramble_all, small_agent
from wolpertinger import (
    ActionSet,
    ActionTable,
    BestByCritic,
    Candidates,
    CandidateSource,
    CheckpointError,
    Exploration,
    Nearest,
    Union,
    Wolpertinger,
)


class Circle(ActionSet):
    """n points on the unit circle, of which the nearest ones follow from the angle."""

    dim, low, high = 2, np.float32([-1, -1]), np.float32([1, 1])

    def __init__(self, n):
        self._n = n

    @property
    def n(self):
        return self._n

    @property
    def space(self):
        return spaces.Discrete(self._n)

    def embed(self, actions):
        angles = 2 * np.pi * np.asarray(actions) / self._n
        return np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)

    def nearest(self, protos, k):
        place = np.arctan2(protos[:, 1], protos[:, 0])[:, None] * self._n / (2 * np.pi)
        nearer_side = np.where(place < np.round(place), -1, 1)
        steps = [(i + 1) // 2 * (1 if i % 2 else -1) for i in range(k)]  # 0, 1, -1, 2, -2, ...
        return (np.round(place) + nearer_side * steps).astype(np.int64) % self._n


class PopularOrNear(CandidateSource):
    """Half of the candidates are the most popular actions, the others lie near the state itself."""

    needs_actor = False
    by_popularity = torch.randperm(1024, generator=torch.Generator().manual_seed(0))

    def find(self, states, k):
        popular = self.by_popularity[: k // 2].expand(len(states), -1)
        near = torch.from_numpy(self.actions.nearest(states.obs.numpy(), k - k // 2))
        return Candidates(torch.cat([popular, near], dim=1), source="popular or near")


N, K = 360, 6
OBS = np.random.default_rng(0).uniform(-1, 1, (16, 2)).astype(np.float32)


def lines_of(part):
    return len(inspect.getsource(part).splitlines())


def score(agent, env):
    return evaluate_policy(agent, Monitor(env), n_eval_episodes=60)[0]


def circle_agent(**settings):
    env = TargetEnv(Circle(N), length=1, offer=False)
    return env, small_agent(env, **{"actions": Circle(N), "k": K, **settings})


def test_they_are_as_short_as_promised():
    assert lines_of(Circle) <= 25
    assert lines_of(PopularOrNear) <= 20


@pytest.mark.parametrize("k", [1, 2, 7, N])
def test_the_users_lookup_is_right(k):
    circle, protos = Circle(N), np.random.default_rng(1).normal(size=(50, 2))
    found = circle.nearest(protos, k)
    expected = ActionTable(circle.embed(np.arange(N))).nearest(protos, k)
    distances = [np.linalg.norm(circle.embed(part) - protos[:, None], axis=-1) for part in (found, expected)]
    np.testing.assert_allclose(*distances, atol=1e-5)
    assert all(len(set(row)) == k for row in found.tolist())


def test_a_set_of_ones_own_trains():
    env, agent = circle_agent(learning_starts=100, policy_kwargs={"net_arch": [64, 64]})
    before = score(agent, env)
    agent.learn(300)
    assert agent.actions.n == N
    assert score(agent, env) > before + 0.3


def test_a_set_of_ones_own_is_explained():
    _, agent = circle_agent()
    scramble_all(agent)
    why = agent.explain(OBS)
    for row, state in enumerate(torch.from_numpy(OBS)):
        proto = agent.actor(state[None]).detach().numpy()
        np.testing.assert_array_equal(why.actions[row], agent.actions.nearest(proto, K)[0])
        action, q = best_of(agent.critic, state, agent.actions, why.actions[row])
        assert (why.chosen[row], why.q[row].max()) == (action, pytest.approx(q, rel=1e-4, abs=1e-6))
        np.testing.assert_allclose(
            why.distances[row], np.linalg.norm(agent.actions.embed(why.actions[row]) - proto, axis=1), rtol=1e-4
        )
    assert (why.sources == "nearest").all()
    np.testing.assert_array_equal(agent.predict(OBS)[0], why.chosen)


def test_a_set_of_ones_own_is_given_again_on_loading(tmp_path):
    env, agent = circle_agent()
    agent.learn(40)
    agent.save(tmp_path / "agent.zip", include=["replay_buffer"])
    with pytest.raises(CheckpointError, match=rf"holds no action set, only its SHA-256 {Circle(N).sha256}: give act"):
        Wolpertinger.load(tmp_path / "agent.zip")
    with pytest.raises(CheckpointError, match=r"the given action set has SHA-256 .*, the agent was saved with"):
        Wolpertinger.load(tmp_path / "agent.zip", actions=Circle(N + 1))
    for given in ({"actions": Circle(N)}, {"env": TargetEnv(Circle(N), length=1)}):
        loaded = Wolpertinger.load(tmp_path / "agent.zip", **given)
        np.testing.assert_array_equal(loaded.predict(OBS)[0], agent.predict(OBS)[0])
    loaded = Wolpertinger.load(tmp_path / "agent.zip", env=env, actions=Circle(N))
    assert loaded.learn(30, reset_num_timesteps=False).num_timesteps == 70


@pytest.mark.parametrize(
    "settings",
    [
        {"k": N},
        {"candidates": "all"},
        {"critic": "two-tower", "candidates": BestByCritic(refresh_every=5)},
        {"critic": "two-tower", "candidates": "both"},
        {"exploration": Exploration(epsilon=1.0)},
    ],
    ids=["every action", "all", "critic", "both", "random"],
)
def test_a_set_of_ones_own_does_what_the_shipped_ones_do(settings):
    env, agent = circle_agent(**settings)
    agent.learn(40)
    assert all(0 <= action < N for action in env.executed)
    assert len(set(map(int, env.executed))) > 5
    assert agent.predict(OBS)[0].shape == (16,)


def popular_agent(env=None, **settings):
    return small_agent(env or TargetEnv(length=5), **{"candidates": PopularOrNear, "k": K, **settings})


def test_a_source_of_ones_own_trains_without_an_actor():
    env = TargetEnv(length=1)
    agent = popular_agent(env, learning_starts=100, policy_kwargs={"net_arch": [64, 64]})
    weights = agent.actor.mu[0].weight.clone()
    before = score(agent, env)
    agent.learn(500)
    assert score(agent, env) > max(-0.15, before)  # a random policy scores -1.04
    assert torch.equal(agent.actor.mu[0].weight, weights)


def test_a_source_of_ones_own_is_explained():
    agent = popular_agent()
    scramble_all(agent)
    why = agent.explain(OBS)
    assert (why.actions[:, : K // 2] == PopularOrNear.by_popularity[: K // 2].numpy()).all()
    np.testing.assert_array_equal(why.actions[:, K // 2 :], agent.actions.nearest(OBS, K - K // 2))
    chosen = [
        best_of(agent.critic, state, agent.actions, candidates)[0]
        for state, candidates in zip(torch.from_numpy(OBS), why.actions, strict=True)
    ]
    np.testing.assert_array_equal(why.chosen, chosen)
    np.testing.assert_array_equal(agent.predict(OBS)[0], chosen)
    assert (why.sources == "popular or near").all()
    assert why.proto.tolist() == [[0, 0]] * len(OBS)  # nobody asked the actor: the middle of the box


def test_a_source_of_ones_own_is_given_again_on_loading(tmp_path):
    agent = popular_agent().learn(40)
    agent.save(tmp_path / "agent.zip")
    with pytest.raises(CheckpointError, match="saved with candidates of the user's own: give it to load again"):
        Wolpertinger.load(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", env=TargetEnv(length=5), candidates=PopularOrNear)
    np.testing.assert_array_equal(loaded.predict(OBS)[0], agent.predict(OBS)[0])
    assert loaded.learn(30, reset_num_timesteps=False).num_timesteps == 70
    other = Wolpertinger.load(tmp_path / "agent.zip", candidates="nearest")
    assert (other.explain(OBS).sources == "nearest").all()


FACTORIES = {
    "class": PopularOrNear,
    "partial": partial(PopularOrNear),
    "function": lambda actions, critic: PopularOrNear(actions, critic),
}


@pytest.mark.parametrize("factory", FACTORIES)
def test_without_an_actor_random_actions_explore_whatever_makes_the_source(factory):
    assert popular_agent(candidates=FACTORIES[factory], exploration=None).exploration.epsilon > 0
    own = Exploration(epsilon=0.0, final_epsilon=0.3)
    assert popular_agent(candidates=FACTORIES[factory], exploration=own).exploration is own
    with pytest.warns(UserWarning, match=r"epsilon is 0, and noise .*: nothing is explored") as warned:
        popular_agent(candidates=FACTORIES[factory], exploration=Exploration())
    assert "nothing is explored" in str(warned[0].message)


class Aging(PopularOrNear):
    """Knows how often the critic has been updated, and keeps it in the file."""

    age = 0

    def critic_updated(self):
        self.age += 1

    def state_dict(self):
        return {"age": torch.tensor(self.age)}

    def load_state_dict(self, state):
        self.age = int(state["age"])


@pytest.mark.parametrize("candidates", [Aging, Union((Nearest(), Aging))], ids=["alone", "union"])
def test_the_state_of_a_source_of_ones_own_comes_back_with_it(tmp_path, candidates):
    agent = popular_agent(candidates=candidates).learn(50)
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip", candidates=candidates)
    (age,) = loaded.policy.behaviour.source.state_dict().values()
    assert age == agent._n_updates == 30
    for other in ("nearest", {"kind": "all"}):  # which keeps no state
        assert Wolpertinger.load(tmp_path / "agent.zip", candidates=other).k == K


def test_a_source_of_ones_own_beside_a_shipped_one():
    agent = popular_agent(candidates=Union((Nearest(), PopularOrNear))).learn(30)
    sources = agent.explain(OBS).sources
    assert sources.shape == (16, 2 * K)
    assert np.isin(sources, ["nearest", "popular or near", "both"]).all()
    assert (sources != "both").any()
