"""Estimators on a problem of two states and three actions, whose values are known."""

import numpy as np
import pytest

from wolpertinger.data.estimators import Episodes, Estimate, direct, mean_return, weighted

GAMMA, END = 0.9, 0.5
PAYS = np.array([[1.0, 0.0, 0.2], [0.0, 2.0, 0.5]])  # of actions in states
MOVES = np.array([[0.2, 0.8, 0.5], [0.9, 0.3, 0.5]])  # chance that the next state is 1
LOGGING = np.array([[0.3, 0.5, 0.2], [0.1, 0.7, 0.2]])
TARGET = np.array([1, 1])  # what the policy takes in each state


def solve(chances):
    """Values of states and of actions, exactly; an episode ends with chance `END` and begins in either state."""
    pay, move = (chances * PAYS).sum(axis=1), (chances * MOVES).sum(axis=1)
    step = np.stack([1 - move, move], axis=1)
    v = np.linalg.solve(np.eye(2) - GAMMA * (1 - END) * step, pay)
    q = PAYS + GAMMA * (1 - END) * ((1 - MOVES) * v[0] + MOVES * v[1])
    return v, q


def log(m, seed=0, most=60):
    rng = np.random.default_rng(seed)
    states, actions, rewards, lengths = [], [], [], []
    for _ in range(m):
        state, length = int(rng.integers(2)), 0
        while True:
            action = int(rng.choice(3, p=LOGGING[state]))
            states.append(state)
            actions.append(action)
            rewards.append(PAYS[state, action] + rng.normal() * 0.1)
            length += 1
            if rng.random() < END or length == most:
                break
            state = int(rng.random() < MOVES[state, action])
        lengths.append(length)
    lengths = np.array(lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return np.array(states), np.array(actions), np.array(rewards), Episodes(starts, lengths)


@pytest.fixture(scope="module")
def logged():
    return log(4_000)


def ratios_of(states, actions):
    return (TARGET[states] == actions) / LOGGING[states, actions]


def exact():
    v, q = solve(np.eye(3)[TARGET])
    return float(v.mean()), v, q


def test_the_mean_return_is_the_logging_policys_value(logged):
    _, _, rewards, episodes = logged
    found = mean_return("logged", episodes, rewards, GAMMA)
    assert found.low < solve(LOGGING)[0].mean() < found.high
    assert found.is_trusted


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("with_model", [False, True])
def test_weighted_estimates_hold_the_policys_value(logged, normalise, with_model):
    states, actions, rewards, episodes = logged
    value, v, q = exact()
    wrong = 0.7  # a model that is off is corrected
    model = (wrong * q[states, actions], wrong * v[states]) if with_model else None
    found = weighted("w", episodes, ratios_of(states, actions), rewards, GAMMA, model=model, normalise=normalise)
    assert found.low < value < found.high
    assert abs(found.value - value) < 0.25 * value
    assert 1 < found.effective < len(episodes)


def test_a_model_that_is_right_makes_the_interval_small(logged):
    states, actions, rewards, episodes = logged
    value, v, q = exact()
    ratios = ratios_of(states, actions)
    plain = weighted("is", episodes, ratios, rewards, GAMMA)
    robust = weighted("dr", episodes, ratios, rewards, GAMMA, model=(q[states, actions], v[states]))
    assert robust.high - robust.low < 0.9 * (plain.high - plain.low)
    assert abs(robust.value - value) < 0.1 * value


def test_equal_policies_have_weights_of_1(logged):
    _, _, rewards, episodes = logged
    found = weighted("w", episodes, np.ones(len(rewards)), rewards, GAMMA, normalise=True)
    assert found.value == pytest.approx(mean_return("m", episodes, rewards, GAMMA).value)
    assert found.effective == len(episodes)


def test_a_policy_that_the_log_never_follows_is_not_trusted(logged):
    _, _, rewards, episodes = logged
    for normalise in (False, True):
        found = weighted("w", episodes, np.zeros(len(rewards)), rewards, GAMMA, normalise=normalise)
        assert (found.value, found.effective) == (0, 0)
        assert not found.is_trusted


def test_a_direct_estimate_is_the_mean_of_the_starts():
    found = direct("fqe", np.array([1.0, 2.0, 3.0] * 100))
    assert found.value == 2.0
    assert 1.8 < found.low < 2 < found.high < 2.2
    assert found.is_trusted


@pytest.mark.parametrize(("effective", "episodes", "trusted"), [(49, 100, False), (60, 100, True), (60, 10_000, False)])
def test_trust_asks_for_episodes_that_count(effective, episodes, trusted):
    assert Estimate("w", 0.0, 0.0, 0.0, effective, episodes).is_trusted == trusted
