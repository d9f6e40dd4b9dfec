"""Gymnasium's vector environments behind Stable-Baselines3's VecEnv."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.vec_env import VecMonitor

import wolpertinger  # noqa: F401 - registers the environments
from wolpertinger.envs import GymnasiumVecEnv

ID = "wolpertinger/Recommender-v0"


class Countdown(gym.Env):
    """Counts up; ends at `end` if that is reached before the time limit `limit`."""

    observation_space = spaces.Box(-100, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, end=100, limit=100):
        self.end, self.limit = end, limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.start = -int(self.np_random.integers(1, 50))
        self.count = 0
        return np.array([self.start], np.float32), {}

    def step(self, action):
        self.count += 1
        obs = np.array([self.count], np.float32)
        return obs, float(self.count), self.count >= self.end, self.count >= self.limit, {}

    def times(self, factor):
        return self.end * factor


def countdowns(*settings, mode=AutoresetMode.SAME_STEP):
    makers = [lambda end=end, limit=limit: Countdown(end, limit) for end, limit in settings]
    return SyncVectorEnv(makers, autoreset_mode=mode)


@pytest.fixture
def users():
    return GymnasiumVecEnv(gym.make_vec(ID, num_envs=6, items=49))


def test_a_time_out_is_told_from_an_end():
    env = GymnasiumVecEnv(countdowns((2, 9), (9, 2), (2, 2), (9, 9)))
    env.seed(0)
    env.reset()
    _, _, done, infos = env.step(np.zeros(4, int))
    assert not done.any()
    assert infos == [{}] * 4
    obs, rewards, done, infos = env.step(np.zeros(4, int))
    np.testing.assert_array_equal(done, [True, True, True, False])
    assert [info.get("TimeLimit.truncated") for info in infos] == [False, True, False, None]
    for info, first in zip(infos[:3], obs, strict=False):
        np.testing.assert_array_equal(info["terminal_observation"], [2])
        assert first < 0  # the next episode's first observation
    assert infos[3] == {}
    assert rewards.dtype == np.float32
    np.testing.assert_array_equal(rewards, [2, 2, 2, 2])


def test_the_infos_of_users_are_their_own(users):
    users.reset()
    *_, infos = users.step(np.zeros(6, int))
    infos[0]["mark"] = 1
    assert all("mark" not in info for info in infos[1:])


def test_the_recommenders_last_observation_is_handed_on(users):
    users.seed(1)
    users.reset()
    n_ended = 0
    for _ in range(30):
        obs, _, done, infos = users.step(np.arange(6))
        for i in range(6):
            assert ("terminal_observation" in infos[i]) == done[i]
            if done[i]:
                assert infos[i]["terminal_observation"] in users.observation_space
                assert infos[i]["TimeLimit.truncated"] is False
        n_ended += done.sum()
        np.testing.assert_array_equal(obs, users.env.actions.embed(users.env.states))
    assert n_ended > 5


def trajectory(env, seed):
    env.seed(seed)
    steps = [env.reset()]
    for number in range(20):
        obs, rewards, done, _ = env.step(np.full(env.num_envs, number % 2))
        steps += [obs, rewards, done]
    return np.concatenate([np.ravel(step) for step in steps])


@pytest.mark.parametrize(
    "vector",
    [lambda: gym.make_vec(ID, num_envs=6, items=49), lambda: countdowns((3, 9), (9, 4))],
    ids=["users", "sync"],
)
def test_the_same_seed_gives_the_same_trajectory(vector):
    env = GymnasiumVecEnv(vector())
    first = trajectory(env, 5)
    np.testing.assert_array_equal(first, trajectory(env, 5))
    np.testing.assert_array_equal(first, trajectory(GymnasiumVecEnv(vector()), 5))
    assert not np.array_equal(first, trajectory(env, 6))


def test_a_reset_without_a_seed_goes_on_with_the_generator(users):
    users.seed(0)
    first = users.reset()
    assert not np.array_equal(first, users.reset())


def test_attributes_and_methods_by_index(users):
    users.seed(0)
    users.reset()
    assert [actions.n for actions in users.get_attr("actions")] == [49] * 6
    assert users.get_attr("actions", indices=2) == [users.env.actions]
    assert len(users.get_attr("actions", indices=[0, 5])) == 2
    assert users.has_attr("guided_actions")
    assert not users.has_attr("no_such_thing")
    every = users.env_method("guided_actions")
    assert len(every) == 6
    some = users.env_method("guided_actions", indices=[4, 1])
    np.testing.assert_array_equal(some, [every[4], every[1]])
    np.testing.assert_array_equal(users.env_method("guided_actions", indices=3), [every[3]])


def test_attributes_and_methods_of_separate_environments():
    env = GymnasiumVecEnv(countdowns((3, 9), (5, 9), (7, 9)))
    assert env.get_attr("end") == [3, 5, 7]
    assert env.get_attr("end", indices=[2, 0]) == [7, 3]
    assert env.env_method("times", 10, indices=[1]) == [50]
    env.set_attr("limit", 1)
    assert env.get_attr("limit") == [1, 1, 1]
    with pytest.raises(ValueError, match=r"indices=\[0\]: an attribute is set for all 3 or for none"):
        env.set_attr("limit", 2, indices=[0])


def test_an_attribute_of_users_is_set_for_all(users):
    users.set_attr("mark", 7)
    assert users.get_attr("mark", indices=[0, 1]) == [7, 7]


def test_vec_monitor_reports_returns_and_lengths():
    env = VecMonitor(GymnasiumVecEnv(countdowns((3, 9), (9, 2))))
    env.reset()
    episodes = []
    for _ in range(6):
        *_, infos = env.step(np.zeros(2, int))
        episodes.append([info["episode"]["r"] if "episode" in info else None for info in infos])
    assert episodes == [[None, None], [None, 3], [6, None], [None, 3], [None, None], [6, 3]]


def test_wrappers_are_not_looked_for(users):
    assert users.env_is_wrapped(gym.Wrapper) == [False] * 6


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_another_reset_mode_is_refused(mode):
    with pytest.raises(ValueError, match=r"resets in mode .*: Stable-Baselines3 needs SAME_STEP"):
        GymnasiumVecEnv(countdowns((3, 9), mode=mode))


def test_close_closes_the_environment():
    vector = countdowns((3, 9))
    GymnasiumVecEnv(vector).close()
    assert vector.closed


class Succeeds(gym.Env):
    """Ends after two steps and says whether it was a success."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        info = {"is_success": bool(action), "score": {"goals": 3}} if self.steps == 2 else {}
        return np.zeros(1, np.float32), 0.0, self.steps == 2, False, info


def test_the_last_info_of_an_episode_is_passed_on():
    same_step = gym.vector.AutoresetMode.SAME_STEP
    env = GymnasiumVecEnv(gym.vector.SyncVectorEnv([Succeeds] * 2, autoreset_mode=same_step))
    env.reset()
    env.step(np.array([1, 0]))
    *_, infos = env.step(np.array([1, 0]))
    assert [info["is_success"] for info in infos] == [True, False]
    assert [info["score"]["goals"] for info in infos] == [3, 3]
