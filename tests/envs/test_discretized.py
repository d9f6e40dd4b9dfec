"""Continuous actions as levels: exactly the Box's values, at any number of combinations."""

import tracemalloc

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as check_gymnasium
from stable_baselines3.common.env_checker import check_env as check_sb3

import wolpertinger
from wolpertinger import ActionProduct, Wolpertinger, discretize


class Recorder(gym.Env):
    """Keeps the last action that it was given."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space
        self.given = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert action in self.action_space
        self.given = action
        return np.zeros(1, np.float32), 0.0, False, False, {}


def given(env, action):
    env.reset(seed=0)
    env.step(action)
    return env.unwrapped.given


def box(low=-1.0, high=1.0, shape=(2,), dtype=np.float32):
    return Recorder(spaces.Box(low, high, shape, dtype))


def test_pendulums_levels_are_torques():
    env = discretize(gym.make("Pendulum-v1"), 5)
    assert env.action_space == spaces.Discrete(5)
    torques = [env.action(action) for action in range(5)]
    np.testing.assert_array_equal(torques, np.array([[-2], [-1], [0], [1], [2]], np.float32))
    assert all(torque.dtype == np.float32 for torque in torques)


def test_the_inner_environment_gets_what_the_set_says():
    env = discretize(box(), 7)
    actions = env.get_wrapper_attr("actions")
    assert isinstance(actions, ActionProduct)
    assert actions.space == env.action_space == spaces.Discrete(49)
    for action in range(49):
        np.testing.assert_array_equal(given(env, np.int64(action)), actions.embed(action))


def test_levels_of_their_own_per_dimension():
    env = discretize(box(np.array([-1, 0]), np.array([1, 10]), (2,)), [3, 11])
    assert env.action_space == spaces.Discrete(33)
    np.testing.assert_array_equal(given(env, 0), [-1, 0])
    np.testing.assert_array_equal(given(env, 11 + 4), [0, 4])
    np.testing.assert_array_equal(given(env, 32), [1, 10])
    assert discretize(box(), (3, 4)).action_space == discretize(box(), np.array([3, 4])).action_space


def test_digits_on_request():
    env = discretize(box(), [3, 5], multidiscrete=True)
    assert env.action_space == spaces.MultiDiscrete([3, 5])
    assert env.get_wrapper_attr("actions").space == env.action_space
    np.testing.assert_array_equal(given(env, np.array([0, 4])), [-1, 1])
    np.testing.assert_array_equal(given(env, np.array([1, 3])), [0, 0.5])
    assert discretize(box(), 3, multidiscrete=False).action_space == spaces.Discrete(9)


@pytest.mark.parametrize(("shape", "dtype"), [((2, 3), np.float32), ((2, 3), np.float64), ((), np.float64)])
def test_shape_and_type_of_the_box_are_restored(shape, dtype):
    env = discretize(box(-np.pi, np.pi, shape, dtype), 4)
    for action in (0, env.action_space.n - 1):  # the bounds: float32 would round pi out of a float64 Box
        value = given(env, action)
        assert value.shape == shape
        assert value.dtype == dtype
    np.testing.assert_array_equal(given(env, 0), np.full(shape, -np.pi, dtype))


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")  # said of every wrapper
@pytest.mark.parametrize("multidiscrete", [False, True])
def test_the_checkers_find_nothing(multidiscrete):
    env = discretize(gym.make("Pendulum-v1"), 11, multidiscrete=multidiscrete)
    check_gymnasium(env, skip_render_check=True)  # rendering Pendulum needs pygame
    check_sb3(env)


def test_an_action_outside_the_set_is_refused():
    env = discretize(box(), 3)
    with pytest.raises(ValueError, match="action 9 is not in the set"):
        given(env, 9)
    with pytest.raises(ValueError, match="action -1 is not in the set"):
        given(discretize(box(), 3, multidiscrete=True), np.array([0, -1]))


def test_beyond_63_bits_actions_are_digits():
    assert discretize(box(shape=(62,)), 2).action_space == spaces.Discrete(2**62)
    assert discretize(box(shape=(63,)), 2).action_space == spaces.MultiDiscrete([2] * 63)
    with pytest.raises(ValueError, match="too many for ids in 63 bits"):
        discretize(box(shape=(63,)), 2, multidiscrete=False)


def test_no_combination_is_enumerated():
    tracemalloc.start()
    env = discretize(box(shape=(40,)), 1001)
    actions = env.get_wrapper_attr("actions")
    value = given(env, np.full(40, 1000))
    near = actions.nearest(np.zeros((1, 40)), 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert actions.n == 1001**40
    np.testing.assert_array_equal(value, np.ones(40))
    np.testing.assert_array_equal(near[0, 0], np.full(40, 500))
    assert peak < 5e6


def test_the_agent_finds_the_set_by_itself():
    agent = Wolpertinger("MlpPolicy", discretize(gym.make("Pendulum-v1"), 1001), seed=0)
    assert agent.actions.n == 1001
    action, _ = agent.predict(np.zeros(3, np.float32))
    assert action in agent.action_space


@pytest.mark.parametrize(("name", "levels", "n"), [("Hopper-v5", 101, 101**3), ("HalfCheetah-v5", 21, 85_766_121)])
def test_the_agent_trains_on_robots(name, levels, n):
    settings = {"learning_starts": 20, "batch_size": 16, "policy_kwargs": {"net_arch": [16]}, "buffer_size": 200}
    agent = Wolpertinger("MlpPolicy", discretize(gym.make(name), levels), k=16, seed=0, **settings).learn(60)
    assert agent.actions.n == n
    assert agent._n_updates == 40
    assert np.isfinite(agent.replay_buffer.rewards[:60]).all()


def test_memory_of_training_does_not_grow_with_the_number_of_combinations():
    def peak(levels):
        settings = {"learning_starts": 20, "batch_size": 16, "policy_kwargs": {"net_arch": [16]}, "buffer_size": 200}
        tracemalloc.start()
        env = discretize(box(shape=(100,)), levels)
        agent = Wolpertinger("MlpPolicy", env, k=8, seed=0, **settings).learn(24)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return agent.actions.n, found

    peak(2)  # what is loaded once
    few, many = peak(2), peak(4)
    assert (few[0], many[0]) == (2**100, 4**100)
    assert few[1] < 2e7
    assert many[1] < 1.5 * few[1]


def test_the_id_of_the_discretised_takes_the_inner_environments_options():
    env = gym.make("wolpertinger/Discretized-v0", env_id="Pendulum-v1", levels=21, g=1.0)
    assert env.action_space == spaces.Discrete(21)
    assert env.unwrapped.g == 1.0


def test_the_spec_makes_it_again():
    env = gym.make(discretize(gym.make("Pendulum-v1"), 21).spec)
    assert env.action_space == spaces.Discrete(21)


@pytest.mark.parametrize(
    "space", [spaces.Discrete(4), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3)], ids=["ids", "digits", "bits"]
)
def test_discrete_actions_are_left_alone(space):
    with pytest.raises(ValueError, match=r"are discrete already, .*: a Box of floats with finite bounds"):
        discretize(Recorder(space), 3)


@pytest.mark.parametrize("space", [spaces.Tuple([spaces.Box(-1, 1)]), spaces.Box(0, 9, (2,), np.uint8)])
def test_what_is_not_a_box_of_floats_is_refused(space):
    with pytest.raises(ValueError, match=r"actions are .*: a Box of floats with finite bounds can be discretised"):
        discretize(Recorder(space), 3)


def test_infinite_bounds_are_refused():
    with pytest.raises(ValueError, match=r"infinite bounds, .*: a Box of floats with finite bounds can be"):
        discretize(box(-1, np.inf), 3)


@pytest.mark.parametrize("levels", [1, 0, -3, [3, 1], 2.5, "many", None, [3, 2.5]])
def test_levels_are_whole_numbers_of_at_least_two(levels):
    with pytest.raises(ValueError, match=r"levels=.*: give whole numbers of at least 2"):
        discretize(box(), levels)


@pytest.mark.parametrize("levels", [[3], [3, 3, 3], []])
def test_one_number_of_levels_per_dimension(levels):
    with pytest.raises(ValueError, match=r"levels for 2 dimensions, .*: give one number, or one per dimension"):
        discretize(box(), levels)


def test_vector_environments_are_refused():
    vector = gym.make_vec("Pendulum-v1", num_envs=2)
    with pytest.raises(TypeError, match="is a vector environment: discretise the single environment before"):
        discretize(vector, 3)
    vector.close()


def test_it_is_a_public_name():
    assert wolpertinger.discretize is wolpertinger.envs.discretize
    assert "discretize" in wolpertinger.__all__


def test_levels_that_do_not_fit_the_memory_are_refused_with_their_bytes():
    env = Recorder(spaces.Box(-1, 1, (1,)))
    with pytest.raises(ValueError, match=r"levels=1,000,000,000,000 would take 64,000,000,000,000 bytes of memory"):
        discretize(env, 10**12)
    with pytest.raises(ValueError, match=r"levels=1000000000+: give a whole number from 2 to 9223372036854775807"):
        discretize(env, 10**30)


def test_what_is_no_environment_or_no_flag_is_refused():
    with pytest.raises(TypeError, match="env=3: give an environment whose actions are a bounded Box"):
        discretize(3, 5)
    with pytest.raises(ValueError, match="multidiscrete=1: give True or False or None"):
        discretize(Recorder(spaces.Box(-1, 1, (1,))), 5, multidiscrete=1)
    for levels in (True, "55", (number for number in (3, 3)), np.ma.masked_array([5], [True]), np.array([[5]])):
        with pytest.raises(ValueError, match="give whole numbers of at least 2"):
            discretize(Recorder(spaces.Box(-1, 1, (1,))), levels)
