import gymnasium as gym
import numpy as np
import pytest

from wolpertinger.envs import CartPoleSwingUp, CartPoleSwingUpVector
from wolpertinger.envs.cartpole import HALF_TRACK, MAX_FORCE, Plant

ID = "wolpertinger/CartPoleSwingUp-v0"
MIDDLE = 500_000  # the first level above no force


def upright(cart=0.0, degrees=0.0, length=1.0):
    plant = Plant()
    plant.set_pole(length)
    plant.set_state(cart, np.deg2rad(degrees), 0.0, 0.0)
    return plant


def test_a_million_forces_from_one_end_to_the_other():
    env = CartPoleSwingUp()
    assert env.action_space == gym.spaces.Discrete(1_000_000)
    assert env.actions.embed(np.array([0, 999_999])).ravel().tolist() == [-10, 10]
    assert CartPoleSwingUp(levels=3).actions.embed(np.arange(3)).ravel().tolist() == [-10, 0, 10]


@pytest.mark.parametrize(
    ("cart", "degrees", "reward"),
    [(0, 0, 1), (0, 4.5, 1), (0, -4.5, 1), (0, 5.5, 0), (0.19, 0, 1), (-0.19, 0, 1), (0.21, 0, 0), (0, 180, 0)],
)
def test_reward_is_for_a_pole_within_five_degrees_and_a_cart_in_the_middle_tenth(cart, degrees, reward):
    plant = upright(cart, degrees)
    assert plant.push(0.0) == reward


def test_a_push_to_the_right_moves_the_cart_right_and_tips_the_upright_pole_left():
    plant = upright()
    for _ in range(5):
        plant.push(MAX_FORCE)
    cart, _, sine, speed, turn, _ = plant.observe()
    assert cart > 0
    assert speed > 0
    assert turn < 0
    assert sine < 0


@pytest.mark.parametrize("length", [0.6, 1.0])
def test_the_pole_swings_with_the_period_of_a_rod(length):
    # A rod on a fixed pivot swings in 2 pi sqrt(2 L / 3 g); on a free cart of mass M and with a rod of mass m it is
    # shorter by sqrt(1 - 3 m / 4 (m + M)).
    plant = Plant()
    plant.set_pole(length)
    plant.set_state(0.0, np.pi - 0.05, 0.0, 0.0)
    sines = []
    for _ in range(500):
        plant.push(0.0)
        sines.append(plant.observe()[2])
    crossings = np.flatnonzero(np.diff(np.sign(sines)))
    period = 2 * 0.02 * np.diff(crossings).mean()
    mass = 0.2 * length
    expected = 2 * np.pi * np.sqrt(2 * length / (3 * 9.81) * (1 - 3 * mass / (4 * (mass + 1))))
    assert period == pytest.approx(expected, rel=0.02)


def test_the_ends_of_the_track_stop_the_cart():
    plant = upright()
    for _ in range(300):
        plant.push(MAX_FORCE)
    assert plant.observe()[0] == pytest.approx(HALF_TRACK, abs=0.05)


def test_observations_stay_in_their_space_whatever_is_done():
    env = CartPoleSwingUp(levels=2)
    obs, _ = env.reset(seed=0)
    for step in range(500):  # pushes with the pole's swing, which gains energy for ever, and now and then into the ends
        action = int(obs[4] * obs[1] < 0) if step % 100 < 80 else int(step % 200 < 100)
        obs, *_ = env.step(action)
        assert env.observation_space.contains(obs)


def test_episodes_start_hanging_nearly_at_rest_with_poles_of_many_lengths():
    env = CartPoleSwingUp()
    cart, cosine, sine, speed, turn, length = np.array([env.reset(seed=seed)[0] for seed in range(400)]).T
    degrees = np.rad2deg(np.arctan2(-sine, -cosine))  # from straight down
    ranges = [(cart, -1, 1), (degrees, -30, 30), (speed, -0.05, 0.05), (turn, -0.05, 0.05), (length, 0.6, 1)]
    for drawn, low, high in ranges:
        filled = (drawn - low) / (high - low)
        assert -1e-5 < filled.min() < 0.03
        assert 0.97 < filled.max() < 1 + 1e-5


def test_an_episode_is_cut_not_ended():
    env = CartPoleSwingUp(max_steps=3)
    env.reset(seed=0)
    ends = [env.step(MIDDLE)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    assert CartPoleSwingUp().max_steps == 500


def test_the_same_seed_gives_the_same_trajectory():
    def play(seed):
        env = CartPoleSwingUp()
        observations = [env.reset(seed=seed)[0]]
        rng = np.random.default_rng(0)
        observations += [env.step(rng.integers(1_000_000))[0] for _ in range(100)]
        return np.array(observations)

    assert (play(1) == play(1)).all()
    assert (play(1) != play(2)).any()


def test_a_pole_leaves_no_trace_in_the_next_episode():
    env = CartPoleSwingUp()
    first = env.reset(seed=3)[0], env.step(0)[0]
    for seed in (4, 5):
        env.reset(seed=seed)
        env.step(999_999)
    again = env.reset(seed=3)[0], env.step(0)[0]
    assert (np.array(first) == np.array(again)).all()


def test_many_carts_move_as_single_ones_do():
    many = gym.make_vec(ID, num_envs=3, max_steps=10)
    assert isinstance(many, CartPoleSwingUpVector)
    obs, _ = many.reset(seed=7)
    singles = [CartPoleSwingUp(max_steps=10) for _ in range(3)]
    rng = np.random.default_rng(7)
    for single, seen in zip(singles, obs, strict=True):
        single.reset()
        single.plant.reset(rng)
        assert (single._observe() == seen).all()
    actions = np.random.default_rng(0).integers(1_000_000, size=(10, 3))
    for step in actions:
        obs, rewards, ended, cut, info = many.step(step)
        alone = [single.step(action) for single, action in zip(singles, step, strict=True)]
        seen = info["final_obs"] if cut.any() else obs
        assert (seen == np.array([answer[0] for answer in alone])).all()
        assert rewards.tolist() == [answer[1] for answer in alone]
        assert ended.tolist() == [False] * 3
        assert cut.tolist() == [answer[3] for answer in alone]
    assert cut.all()
    assert (obs != info["final_obs"]).any(axis=1).all()  # new episodes have begun
    assert (obs[:, 1] < 0).all()


def test_many_carts_count_the_steps_of_each_episode_anew():
    many = CartPoleSwingUpVector(2, max_steps=5)
    many.reset(seed=0)

    def cuts(steps):
        return [many.step(np.full(2, MIDDLE))[3].tolist() for _ in range(steps)]

    whole = [[False] * 2] * 4 + [[True] * 2]
    assert cuts(10) == whole + whole
    assert cuts(3) == whole[:3]
    many.reset()  # in mid-episode
    assert cuts(5) == whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": 1}, "levels=1: give a whole number of at least 2"),
        ({"levels": 2.5}, r"levels=2\.5: give a whole number"),
        ({"max_steps": 0}, "max_steps=0: give a whole number of at least 1"),
    ],
)
def test_bad_options_are_named(options, message):
    for make in (CartPoleSwingUp, CartPoleSwingUpVector):
        with pytest.raises(ValueError, match=message):
            make(**options)


def test_actions_outside_the_set_are_refused():
    env = CartPoleSwingUp(levels=11)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="11"):
        env.step(11)
    many = CartPoleSwingUpVector(2, levels=11)
    many.reset(seed=0)
    with pytest.raises(ValueError, match="3 actions: give one per cart, 2"):
        many.step(np.array([0, 1, 2]))
