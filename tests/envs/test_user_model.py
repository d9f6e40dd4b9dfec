"""The exact values of the simulated user, against dense algebra and against sampling."""

import itertools
import time
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from wolpertinger.envs import Acceptance, UserModel

N = 12


def draw(seed, n=N):
    """A user with sparse chances, a base rate and a diagonal, and the dense W."""
    rng = np.random.default_rng(seed)
    sparse = sp.random_array((n, n), density=0.3, random_state=rng, data_sampler=lambda size: rng.uniform(0, 0.7, size))
    acceptance = Acceptance(sparse, rng.uniform(0, 0.2, n), rng.uniform(0.5, 1, n))
    return UserModel(acceptance, rng.uniform(0, 2, n)), acceptance.rows(np.arange(n))


def solve(w, rewards, policy):
    """V = sum_j pi_ij [W_ij (r_j + .9 V_j) + (1 - W_ij) .8 mean(V)], as a linear system."""
    n = len(w)
    accepted = policy * w
    moves = 0.9 * accepted + 0.8 * (1 - accepted.sum(axis=1))[:, None] / n
    return np.linalg.solve(np.eye(n) - moves, accepted @ rewards)


def iterate_values(w, rewards):
    v = np.zeros(len(w))
    for _ in range(400):
        q = w * (rewards + 0.9 * v) + (1 - w) * 0.8 * v.mean()
        v = q.max(axis=1)
    return v, q


def one_hot(policy):
    return np.eye(len(policy))[policy]


@pytest.mark.parametrize("seed", range(5))
def test_the_optimum_is_what_value_iteration_finds(seed):
    model, w = draw(seed)
    values, q = iterate_values(w, model.rewards)
    np.testing.assert_allclose(model.optimum.values, values, rtol=1e-8)
    np.testing.assert_allclose(q[np.arange(N), model.optimum.policy], values, rtol=1e-8)
    assert model.optimum.value == pytest.approx(values.mean())


def test_no_policy_of_a_small_task_beats_the_optimum():
    model, w = draw(0, n=4)
    every = [solve(w, model.rewards, one_hot(np.array(p))).mean() for p in itertools.product(range(4), repeat=4)]
    assert model.optimum.value == pytest.approx(max(every))


@pytest.mark.parametrize("seed", range(3))
def test_a_policys_value_solves_the_linear_system(seed):
    model, w = draw(seed)
    policy = np.random.default_rng(seed).integers(N, size=N)
    np.testing.assert_allclose(model.evaluate(policy), solve(w, model.rewards, one_hot(policy)), rtol=1e-10)
    np.testing.assert_allclose(model.evaluate(one_hot(policy)), model.evaluate(policy), rtol=1e-10)


def test_a_stochastic_policys_value_solves_the_linear_system():
    model, w = draw(1)
    policy = np.random.default_rng(0).dirichlet(np.full(N, 0.3), size=N)
    expected = solve(w, model.rewards, policy)
    np.testing.assert_allclose(model.evaluate(policy), expected, rtol=1e-10)
    np.testing.assert_allclose(model.evaluate(sp.csr_array(policy)), expected, rtol=1e-10)


def test_the_random_value_is_that_of_the_uniform_policy():
    model, w = draw(2)
    assert model.random_value == pytest.approx(solve(w, model.rewards, np.full((N, N), 1 / N)).mean())


@pytest.mark.parametrize("seed", range(5))
def test_the_best_fixed_item_is_the_best_of_all(seed):
    model, w = draw(seed)
    returns = [solve(w, model.rewards, one_hot(np.full(N, item))).mean() for item in range(N)]
    assert set(model.best_fixed.policy) == {np.argmax(returns)}
    assert model.best_fixed.value == pytest.approx(max(returns))


def test_two_items_worked_out_by_hand():
    """Item 1 pays 1, item 0 nothing; a user at 0 takes item 1 for certain, a user at 1 takes nothing.

    V0 = 1 + .9 V1 and V1 = .8 (V0 + V1) / 2, so V1 = 2/3 V0, V0 = 2.5, V1 = 5/3. At random each state recommends
    the right item half the time: V0 = .5 (1 + .9 V1) + .5 * .8 m, V1 = .8 m, m the mean. V1 = .8/1.2 V0 = 2/3 V0,
    m = 5/6 V0: V0 (1 - .3 - 1/3) = .5.
    """
    model = UserModel(Acceptance(np.array([[0, 1.0], [0, 0]])), [0, 1])
    np.testing.assert_allclose(model.optimum.values, [2.5, 5 / 3])
    assert model.optimum.policy[0] == 1
    assert model.optimum.value == pytest.approx(25 / 12)
    assert model.best_fixed.value == pytest.approx(25 / 12)
    assert model.random_value == pytest.approx(0.5 / (1 - 0.3 - 1 / 3) * 5 / 6)


def test_three_items_in_a_ring_worked_out_by_hand():
    """Every user takes the next item for certain, and each pays 1: 1 / (1 - .9) = 10 in every state."""
    model = UserModel(Acceptance(np.roll(np.eye(3), 1, axis=1)), np.ones(3))
    np.testing.assert_allclose(model.optimum.values, [10, 10, 10])
    np.testing.assert_array_equal(model.optimum.policy, [1, 2, 0])


def test_refusing_can_be_best():
    """An item that pays nothing and leads nowhere is worse than a random move."""
    w = np.array([[0, 1.0, 0], [0, 0, 1.0], [0, 0, 1.0]])
    model = UserModel(Acceptance(w), [0, 1, 0])
    values, _ = iterate_values(w, model.rewards)
    np.testing.assert_allclose(model.optimum.values, values, rtol=1e-8)
    assert model.optimum.policy[1] != 2
    assert model.optimum.policy[2] != 2


def test_users_react_as_often_as_the_paper_says():
    model, w = draw(3)
    n_users, rng = 200_000, np.random.default_rng(0)
    states, items = np.full(n_users, 5), np.full(n_users, int(w[5].argmax()))
    next_states, rewards, ended = model.respond(states, items, rng)
    chance = w[5].max()
    accepted = rewards > 0
    assert accepted.mean() == pytest.approx(chance, abs=5 * np.sqrt(chance * (1 - chance) / n_users))
    assert set(rewards[accepted]) == {model.rewards[items[0]]}
    assert (next_states[accepted] == items[0]).all()
    for group, share in ((accepted, 0.1), (~accepted, 0.2)):
        assert ended[group].mean() == pytest.approx(share, abs=5 * np.sqrt(share * (1 - share) / group.sum()))
    # Refused: any item with the same chance, the current and the recommended one included.
    counts = np.bincount(next_states[~accepted], minlength=N)
    expected = counts.sum() / N
    assert ((counts - expected) ** 2 / expected).sum() < 35  # chi-square, 11 degrees of freedom: 2e-4
    starts = np.bincount(model.start(n_users, rng), minlength=N)
    assert ((starts - n_users / N) ** 2 / (n_users / N)).sum() < 35


def test_sampled_sessions_earn_the_exact_value():
    model, _ = draw(4)
    rng, policy = np.random.default_rng(0), model.optimum.policy
    n_users = 40_000
    returns, states, users = np.zeros(n_users), model.start(n_users, rng), np.arange(n_users)
    while users.size:
        states, rewards, ended = model.respond(states, policy[states], rng)
        returns[users] += rewards
        states, users = states[~ended], users[~ended]
    error = returns.std() / np.sqrt(n_users)
    assert returns.mean() == pytest.approx(model.optimum.value, abs=4 * error)
    assert error < 0.02 * model.optimum.value


@pytest.mark.parametrize("rewards", [[1, 2], [[1, 2, 3]]])
def test_one_reward_per_item(rewards):
    with pytest.raises(ValueError, match=r"rewards has shape .*: give one for each of the 3 items"):
        UserModel(Acceptance(np.eye(3)), rewards)


@pytest.mark.parametrize("bad", [-0.5, np.nan, np.inf])
def test_rewards_are_finite_and_not_negative(bad):
    with pytest.raises(ValueError, match=r"item 1 has the reward .*: give finite numbers of at least 0"):
        UserModel(Acceptance(np.eye(3)), [0, bad, bad])


@pytest.mark.parametrize("policy", [[0, 1], [0, 1, 3], [-1, 0, 0], [0.0, 1.0, 2.0]])
def test_a_policy_is_an_item_per_state(policy):
    with pytest.raises(ValueError, match=r"policy of shape .*: give an item 0..2 per state"):
        UserModel(Acceptance(np.eye(3)), np.ones(3)).evaluate(policy)


@pytest.mark.parametrize("policy", [np.ones((3, 3)), np.eye(2), [[2, -1, 0]] * 3, sp.csr_array((3, 3))])
def test_a_stochastic_policys_rows_are_chances(policy):
    with pytest.raises(ValueError, match=r"give \(3, 3\), chances in rows that sum to 1"):
        UserModel(Acceptance(np.eye(3)), np.ones(3)).evaluate(policy)


def test_the_papers_largest_task_is_solved_without_a_dense_matrix():
    n, m, rng = 13_138, 30, np.random.default_rng(0)
    sparse = sp.csr_array(
        (rng.uniform(0, 0.5, n * m), (np.repeat(np.arange(n), m), rng.integers(n, size=n * m))), shape=(n, n)
    )
    sparse.data = np.minimum(sparse.data, 0.9)
    start = time.perf_counter()
    tracemalloc.start()
    model = UserModel(Acceptance(sparse, rng.uniform(0, 0.05, n)), rng.uniform(0, 1, n))
    assert model.optimum.value > model.best_fixed.value > model.random_value
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6  # a dense one takes 1,381e6
    assert time.perf_counter() - start < 20
