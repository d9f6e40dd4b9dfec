"""What an environment's state is worth: put back, in another process's words, the same actions give the same steps."""

import json

import gymnasium as gym
import numpy as np
import pytest

from wolpertinger.actions import sample_space
from wolpertinger.agent.trees import pack, unpack

CASES = {
    "wolpertinger/Recommender-v0": {"items": 49, "dim": 4},
    "wolpertinger/PuddleWorld-v0": {"plan": 3, "size": 8},
    "wolpertinger/CartPoleSwingUp-v0": {"levels": 11, "max_steps": 30},
}


def through_files(state):
    tree, arrays = pack(state)
    return unpack(json.loads(json.dumps(tree)), {name: array.copy() for name, array in arrays.items()})


def make(env_id, several):
    if several:
        return gym.make_vec(env_id, num_envs=3, **CASES[env_id])
    return gym.make(env_id, disable_env_checker=True, **CASES[env_id]).unwrapped


def play(env, rng, steps, several):
    """The numbers of some steps, with resets where an episode of a single environment ends."""
    seen = []
    for _ in range(steps):
        action = sample_space(env.actions.space, rng, 3)
        obs, reward, terminated, truncated, _ = env.step(action if several else action[0])
        seen += [np.ravel(part).astype(np.float64) for part in (obs, reward, terminated, truncated)]
        if not several and (terminated or truncated):
            seen.append(np.ravel(env.reset()[0]).astype(np.float64))
    return np.concatenate(seen)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("env_id", CASES)
def test_a_state_that_is_put_back_gives_the_same_steps_to_the_bit(env_id, several):
    env, other = make(env_id, several), make(env_id, several)
    env.reset(seed=3)
    other.reset(seed=4)
    rng = np.random.default_rng(0)
    play(env, rng, 17, several)
    state = through_files(env.get_state())
    play(other, np.random.default_rng(9), 5, several)
    other.set_state(state)
    expected = play(env, np.random.default_rng(1), 80, several)
    assert np.array_equal(play(other, np.random.default_rng(1), 80, several), expected)


@pytest.mark.parametrize("env_id", CASES)
def test_a_state_of_another_form_is_refused(env_id):
    env = make(env_id, True)
    env.reset(seed=0)
    state = env.get_state()
    with pytest.raises(ValueError, match=r"give what get_state\(\) returned"):
        env.set_state({"random": state["random"]})
    wrong = gym.make_vec(env_id, num_envs=2, **CASES[env_id])
    wrong.reset(seed=0)
    with pytest.raises(ValueError, match=r"of the state is .*: give .* of shape"):
        wrong.set_state(state)
