"""What every environment of ours must keep, registered ones by their ids."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.env_checker import check_env as check_env_sb3

import wolpertinger  # noqa: F401 - registers the environments

OPTIONS = {
    "wolpertinger/Recommender-v0": {"items": 49, "dim": 4},
    "wolpertinger/CartPoleSwingUp-v0": {"max_steps": 40},
    "wolpertinger/PuddleWorld-v0": {"plan": 5, "size": 12},
    "wolpertinger/Discretized-v0": {"env_id": "Pendulum-v1", "levels": 1001},
}
OTHERS = {"wolpertinger/Own-v0"}  # another's environment under a name that a run can say
OURS = [name for name in gym.registry if name.startswith("wolpertinger/") and name not in OTHERS]
VECTORISED = [name for name in OURS if gym.spec(name).vector_entry_point is not None]


def play(env, seed, steps=60):
    """What an episode, or more of them, of random actions shows."""
    rng = np.random.default_rng(0)
    obs, _ = env.reset(seed=seed)
    seen = [np.asarray(obs, dtype=np.float64)]
    for _ in range(steps):
        obs, reward, ended, cut, _ = env.step(rng.integers(env.action_space.n))
        seen += [np.asarray(obs, dtype=np.float64), np.array([reward, ended, cut], dtype=np.float64)]
        if ended or cut:
            obs, _ = env.reset()
    return np.concatenate([part.ravel() for part in seen])


def test_every_environment_is_here():
    assert set(OURS) == set(OPTIONS)


# What `discretize` makes is a wrapper, and Gymnasium's checker says of every wrapper that it is one.
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
@pytest.mark.parametrize("name", OURS)
def test_both_checkers_pass_without_a_warning(name):
    env = gym.make(name, render_mode="rgb_array", disable_env_checker=True, **OPTIONS[name])
    inner = env if name == "wolpertinger/Discretized-v0" else env.unwrapped
    check_env(inner)
    check_env_sb3(inner)


@pytest.mark.parametrize("name", OURS)
def test_the_same_seed_gives_the_same_trajectory(name):
    first, again, other = (play(gym.make(name, **OPTIONS[name]), seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    if name != "wolpertinger/PuddleWorld-v0":  # which leaves nothing to chance
        assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", VECTORISED)
def test_the_same_seed_gives_many_the_same_trajectory(name):
    def run(seed):
        env = gym.make_vec(name, num_envs=3, **OPTIONS[name])
        assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
        obs, _ = env.reset(seed=seed)
        rng = np.random.default_rng(0)
        seen = [obs]
        for _ in range(60):
            obs, rewards, *_ = env.step(rng.integers(env.single_action_space.n, size=3))
            assert obs in env.observation_space
            seen += [obs, rewards]
        return np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in seen])

    assert np.array_equal(run(5), run(5))


@pytest.mark.parametrize("name", OURS)
def test_the_action_set_is_the_action_space(name):
    env = gym.make(name, **OPTIONS[name])
    actions = env.get_wrapper_attr("actions")
    assert actions.n == env.action_space.n
    assert actions.space == env.action_space


@pytest.mark.parametrize("name", OURS)
def test_an_unknown_option_is_refused(name):
    with pytest.raises(TypeError, match="colour"):
        gym.make(name, colour=3, **OPTIONS[name])
