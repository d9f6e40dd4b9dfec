"""The best combinations by a factored critic, beside a search through all of A."""

import numpy as np
import pytest
import torch

from tests.agent.envs import TargetEnv, scramble_all, small_agent
from wolpertinger import ActionProduct, Factored, Levels, Wolpertinger
from wolpertinger.policy import restricted

LEVELS = {
    "scalars": [np.linspace(-1, 1, 5)] * 3,
    "mixed": [np.linspace(-1, 1, 4), np.eye(3), [7.0, 5.0, 6.0], [[0.0, 0.0], [1.0, 2.0]]],
    "many levels": [np.linspace(-1, 1, 50), np.linspace(-1, 1, 3)],
}
OBS = np.random.default_rng(3).uniform(-1, 1, (6, 1)).astype(np.float32)


def make_agent(name, space, n_critics=1, **options):
    actions = ActionProduct(LEVELS[name], space=space)
    own = {"critic": Factored(knots=9), "candidates": "factors", "k": 1}
    networks = {"net_arch": [8, 8], "n_critics": n_critics}
    agent = small_agent(TargetEnv(actions), policy_kwargs=networks, **{**own, **options})
    scramble_all(agent)
    return agent, np.repeat(OBS, actions.dim, axis=1)


def all_values(agent, obs):
    """Every action in the order of ids, and the mean of the critics' values (batch, n)."""
    every = next(agent.actions.blocks(10_000))
    with torch.no_grad():
        vectors = torch.from_numpy(agent.actions.embed(every))
        return every, agent.critic.cross(torch.from_numpy(obs), vectors).mean(dim=0).numpy()


@pytest.mark.parametrize("space", ["discrete", "multidiscrete"])
@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("n_critics", [1, 2])
def test_the_best_of_all_actions_is_picked(name, space, n_critics):
    agent, obs = make_agent(name, space, n_critics)
    every, values = all_values(agent, obs)
    picked = agent.predict(obs)[0]
    found = [(every == own).reshape(len(every), -1).all(axis=1).argmax() for own in picked]
    np.testing.assert_allclose(values[np.arange(len(obs)), found], values.max(axis=1), atol=1e-5)


@pytest.mark.parametrize("space", ["discrete", "multidiscrete"])
@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("k", [2, 10, 45])
def test_the_k_best_of_all_actions_are_found_in_order(name, space, k):
    agent, obs = make_agent(name, space)
    _, values = all_values(agent, obs)
    ranked = agent.rank(obs, top=k)
    np.testing.assert_allclose(ranked.values, -np.sort(-values, axis=1)[:, :k], atol=1e-5)
    assert all(len(np.unique(own, axis=0)) == k for own in ranked.actions)
    assert (ranked.sources == "factors").all()


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("direct", [1, 2_048])
def test_only_allowed_combinations_are_found(k, direct, monkeypatch):
    monkeypatch.setattr(restricted, "DIRECT", direct)
    agent, obs = make_agent("mixed", "multidiscrete")
    every, values = all_values(agent, obs)
    rng = np.random.default_rng(0)
    sizes = agent.actions.factors
    allowed = [Levels([rng.choice(n, rng.integers(1, n + 1), replace=False) for n in sizes]) for _ in obs]
    ranked = agent.rank(obs, top=k, allowed=allowed)
    for row, own in enumerate(allowed):
        legal = np.all([np.isin(digit, levels) for digit, levels in zip(every.T, own.of, strict=True)], axis=0)
        best = np.sort(values[row][legal])[::-1][:k]
        np.testing.assert_allclose(ranked.values[row, : len(best)], best, atol=1e-5)
        assert np.isneginf(ranked.values[row, len(best) :]).all()


def test_a_set_that_is_never_listed_is_searched_too():
    agent = small_agent(TargetEnv(ActionProduct([np.eye(2)] * 100)), critic="factored", candidates="factors", k=1)
    scramble_all(agent)
    obs = np.zeros(200, np.float32)
    best, value = agent.predict(obs)[0], agent.rank(obs, top=1).values[0]
    with torch.no_grad():
        others = best ^ np.eye(100, dtype=np.int64)  # one move changed
        vectors = torch.from_numpy(agent.actions.embed(others))
        assert (agent.critic.cross(torch.zeros(1, 200), vectors) <= value).all()


def test_it_learns_what_each_factor_does_and_comes_back_from_a_file(tmp_path):
    env = TargetEnv(ActionProduct([np.linspace(-1, 1, 21)] * 4))
    agent = Wolpertinger("MlpPolicy", env, critic="factored", candidates="factors", learning_starts=200, seed=0)
    agent.learn(1_500)
    obs = np.random.default_rng(0).uniform(-1, 1, (200, 4)).astype(np.float32)
    away = np.linalg.norm(env.set.embed(agent.predict(obs)[0]) - obs, axis=1).mean()
    assert away < 0.7  # random actions: 1.6, the nearest ones: 0.06
    agent.save(tmp_path / "agent.zip")
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    np.testing.assert_array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])
    agent.learn(50, reset_num_timesteps=False)


def test_another_critic_is_refused():
    with pytest.raises(ValueError, match=r'candidates="factors" needs .* give critic="factored"'):
        small_agent(TargetEnv(ActionProduct([np.linspace(-1, 1, 3)] * 2)), candidates="factors")
