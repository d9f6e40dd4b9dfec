"""Lemma 1: the closed form by hand and by chance, its fit, and the study of an agent by brute force."""

import json
from dataclasses import asdict
from itertools import combinations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.lemma import (
    best_of_random,
    candidate_values,
    expected_best,
    fit,
    fit_pooled,
    ladder_of_k,
    simulate,
    study,
    visited_observations,
)
from wolpertinger import ActionProduct, ActionTable, Wolpertinger
from wolpertinger.envs import GymnasiumVecEnv


@settings(max_examples=25, deadline=None)
@given(p=st.floats(0, 1), b=st.floats(0.01, 10), beyond=st.floats(0, 10), q=st.floats(-100, 100), k=st.integers(1, 40))
def test_the_closed_form_is_what_draws_give(p, b, beyond, q, k):
    mean, error = simulate(k, q, p, b, b + beyond, draws=2_000, rng=np.random.default_rng(k))
    rare = (b + beyond) * 10 / 2_000  # fewer than ten draws of all bad, or of a good one, are no sample
    assert abs(expected_best(k, q, p, b, b + beyond) - mean) < 5 * error + rare


def test_one_action_is_worth_its_mean_and_two_by_hand():
    assert expected_best(1, 10.0, 0.25, 2.0, 4.0) == pytest.approx(10 - 0.25 * 4)
    # Both bad: 6. One bad: 10, the mean of the other. None: two thirds up from 8 to 12.
    by_hand = 0.25**2 * 6 + 2 * 0.25 * 0.75 * 10 + 0.75**2 * (8 + 4 * 2 / 3)
    assert expected_best(2, 10.0, 0.25, 2.0, 4.0) == pytest.approx(by_hand)


def test_the_limits():
    assert expected_best(3, 0.0, 0.0, 1.0, 5.0) == pytest.approx(1 - 2 / 4)  # the largest of three uniform ones
    assert expected_best(7, 1.0, 1.0, 0.5, 2.0) == -1.0  # all are bad
    assert expected_best(2**200, 0.0, 0.3, 1.0, 2.0) == 1.0
    assert expected_best([1, 10**12], 0.0, 0.999999, 1.0, 1.0)[1] == pytest.approx(1.0, abs=1e-5)
    near = expected_best([1, 5, 50], 0.0, 1 - 1e-15, 1.0, 3.0)
    np.testing.assert_allclose(near, expected_best([1, 5, 50], 0.0, 1.0, 1.0, 3.0), atol=1e-12)


def test_arrays_of_k_give_arrays_that_rise():
    values = expected_best(np.arange(1, 200), 0.0, 0.5, 1.0, 2.0)
    assert values.shape == (199,)
    assert (np.diff(values) > 0).all()
    assert isinstance(expected_best(3, 0.0, 0.5, 1.0, 2.0), float)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"p": 1.5}, r"p=1\.5: give a probability"),
        ({"b": 3.0}, r"b=3\.0, c=2\.0: the lemma is for 0 <= b <= c"),
        ({"k": 0}, "k=0: give at least 1"),
    ],
)
def test_what_the_lemma_is_not_for_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        expected_best(**{"k": 1, "q": 0.0, "p": 0.5, "b": 1.0, "c": 2.0, **changes})


def test_one_draw_has_no_standard_error():
    with pytest.raises(ValueError, match="draws=1: give at least 2"):
        simulate(1, 0.0, 0.5, 1.0, 2.0, draws=1, rng=np.random.default_rng(0))


def mixture(rng, shape, q=0.0, p=0.3, b=1.0, c=2.0):
    return np.where(rng.random(shape) < p, q - c, rng.uniform(q - b, q + b, shape))


@pytest.mark.parametrize(("p", "b", "c"), [(0.0, 1.0, 1.0), (0.3, 1.0, 2.5), (0.8, 0.2, 1.0), (0.5, 1.0, 1.0)])
def test_a_fit_finds_the_mixture_that_was_drawn(p, b, c):
    found = fit(mixture(np.random.default_rng(0), 40_000, 7.0, p, b, c))
    assert found.p == pytest.approx(p, abs=0.01)
    assert found.b == pytest.approx(b, abs=0.02)
    assert found.centre == pytest.approx(7.0, abs=0.02)
    if p > 0:
        assert found.c == pytest.approx(c, abs=0.03)
    assert found.misfit < 0.02


def test_no_other_number_of_bad_values_fits_better():
    values = np.sort(np.random.default_rng(1).gamma(2.0, size=30))
    squares = []
    for bad in range(29):  # constant and line by a solver, tied to each other where the bad would be better
        place = (np.arange(30 - bad) + 0.5) / (30 - bad)
        line = np.stack([np.ones(30 - bad), place], axis=1)
        free, *_ = np.linalg.lstsq(line, values[bad:], rcond=None)
        low = values[:bad].mean() if bad else -np.inf
        left = ((line @ free - values[bad:]) ** 2).sum() + ((values[:bad] - low) ** 2).sum()
        if low > free[0]:
            tied = np.concatenate([np.tile([1.0, 0.0], (bad, 1)), line])
            left = np.linalg.lstsq(tied, values, rcond=None)[1].item()
        squares.append(left)
    found = fit(values)
    assert found.p == np.argmin(squares) / 30
    assert found.misfit == pytest.approx(np.sqrt(min(squares) / 30))
    assert found.b <= found.c * (1 + 1e-9)


def test_states_of_different_location_and_spread_are_pooled():
    rng = np.random.default_rng(2)
    location, spread = rng.normal(50, 20, (200, 1)), rng.uniform(0.5, 4, (200, 1))
    found = fit_pooled(location + spread * mixture(rng, (200, 400), p=0.4, b=1.0, c=3.0))
    assert found.p == pytest.approx(0.4, abs=0.02)
    assert found.b == pytest.approx(spread.mean(), rel=0.04)
    assert found.c == pytest.approx(3 * spread.mean(), rel=0.04)
    assert found.centre == pytest.approx(location.mean(), abs=0.1)


def test_states_without_any_spread_are_a_fit_too():
    flat = np.full((3, 4), 2.5)
    assert fit_pooled(flat).expected_best([1, 4]).tolist() == [2.5, 2.5]
    one_varies = np.concatenate([flat, [[1.0, 2.0, 3.0, 4.0]]])
    assert fit_pooled(one_varies).centre == pytest.approx(2.5)


def test_values_that_are_no_sample_are_refused():
    with pytest.raises(ValueError, match=r"1 values, of .*: give at least 2, all of them finite"):
        fit([1.0])
    with pytest.raises(ValueError, match="give at least 2, all of them finite"):
        fit([1.0, np.nan])


def test_the_best_of_a_random_few_by_all_ways_to_draw_them():
    values = np.random.default_rng(3).normal(size=(2, 6))
    best_first = -np.sort(-values.T, axis=0)
    for k in range(1, 7):
        drawn = [values[:, list(chosen)].max(axis=1) for chosen in combinations(range(6), k)]
        assert best_of_random(best_first, k) == pytest.approx(np.mean(drawn))


def test_the_ladder_ends_where_told_and_makes_room():
    assert ladder_of_k(2) == [1, 2]
    assert ladder_of_k(120) == [1, 2, 5, 10, 20, 50, 100, 120]
    assert ladder_of_k(1024) == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1024]


class Still(gym.Env):
    """Observations at random, whatever is done; episodes of five steps."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        assert action in self.action_space
        self.left -= 1
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), 0.0, self.left == 0, False, {}


SETS = {
    "ids": lambda: ActionTable(np.random.default_rng(0).normal(size=(60, 2))),
    "ids behind an index": lambda: ActionTable(np.random.default_rng(0).normal(size=(60, 2)), index="IVF4,Flat"),
    "digits": lambda: ActionProduct([np.linspace(-1, 1, 3)] * 4, space=spaces.MultiDiscrete([3] * 4)),
    "more than can be listed": lambda: ActionProduct([np.eye(2)] * 100),
}


PARTS = {"critic": "mlp", "candidates": "nearest"}  # whatever the class would choose


@pytest.fixture(params=SETS)
def agent(request):
    actions = SETS[request.param]()
    kwargs = {"net_arch": [16, 16], "n_critics": 2}
    return Wolpertinger("MlpPolicy", Still(actions.space), actions, k=3, seed=0, policy_kwargs=kwargs, **PARTS)


def values_by_loop(agent, obs, k):
    """The least critic's value of each of the k nearest actions of one state, one action after another."""
    actions = agent.actions
    if isinstance(actions, ActionTable):  # behind an index or not: the true neighbours
        actions = ActionTable(actions.vectors)
    vectors = actions.embed(actions.nearest(agent.explain(obs).proto[None], k)[0])
    state = torch.as_tensor(obs[None])
    return [agent.critic(state, torch.as_tensor(vector[None])).min().item() for vector in vectors]


def test_a_study_measures_what_a_loop_finds(agent):
    observations = np.random.default_rng(4).uniform(-1, 1, (3, 3)).astype(np.float32)
    found = study(agent, observations, most=25)
    assert (found.states, found.distinct, found.candidates) == (3, 3, 25)
    assert found.k == [1, 2, 5, 10, 20, 25]
    values = [values_by_loop(agent, obs, 25) for obs in observations]
    for k, measured in zip(found.k, found.measured, strict=True):
        assert measured == pytest.approx(np.mean([max(each[:k]) for each in values]), abs=1e-5)
    assert found.shuffled[0] == pytest.approx(np.mean(values), abs=1e-5)
    assert found.shuffled[-1] == pytest.approx(found.measured[-1])
    assert found.error == pytest.approx(np.abs(np.subtract(found.predicted, found.measured)).max())
    assert found.relative_error == pytest.approx(found.error / (found.measured[-1] - found.measured[0]))
    assert agent.k == 3


def test_removed_actions_are_no_candidates():
    actions = SETS["ids behind an index"]()
    actions.remove(range(0, 60, 2))
    agent = Wolpertinger("MlpPolicy", Still(actions.space), actions, k=3, seed=0, policy_kwargs={"net_arch": [8]})
    obs = np.zeros((1, 3), np.float32)
    values, _ = candidate_values(agent, obs, 30)
    vectors = torch.as_tensor(actions.vectors[1::2].copy())
    left = agent.critic(torch.as_tensor(obs).expand(30, 3), vectors)[0]
    np.testing.assert_allclose(np.sort(values[0]), np.sort(left.detach().numpy()), atol=1e-5)


def test_a_study_is_json(agent):
    observations = np.zeros((4, 3), np.float32)
    found = asdict(study(agent, observations, most=20))
    assert json.loads(json.dumps(found)) == found
    assert found["distinct"] == 1
    assert found["k"] == [1, 2, 5, 10, 20]


def test_the_excess_is_of_the_proto_action(agent):
    observations = np.random.default_rng(5).uniform(-1, 1, (6, 3)).astype(np.float32)
    found = study(agent, observations, most=20)
    _, proto_values = candidate_values(agent, observations, 20)
    assert found.proto_excess == pytest.approx(proto_values.mean() - found.centre)


def test_one_candidate_is_no_choice(agent):
    with pytest.raises(ValueError, match=r"most=1 of .* actions: the lemma needs at least 2 to choose from"):
        study(agent, np.zeros((4, 3), np.float32), most=1)


def test_visited_observations_are_those_of_the_policy_and_of_the_seed():
    users = gym.make_vec("wolpertinger/Recommender-v0", num_envs=4, items=30, dim=3)
    agent = Wolpertinger("MlpPolicy", users, k=2, seed=0, policy_kwargs={"net_arch": [8]})
    env = GymnasiumVecEnv(users)
    first = visited_observations(agent, env, 10, steps=6, seed=3)
    assert first.shape == (10, 3)
    np.testing.assert_array_equal(first, visited_observations(agent, env, 10, steps=6, seed=3))
    assert visited_observations(agent, env, 50, steps=1, seed=3).shape == (50, 3)  # it goes on
    assert all(np.isclose(agent.actions.vectors, obs).all(axis=1).any() for obs in first)  # a user's item
