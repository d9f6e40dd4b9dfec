"""DouDizhu as an environment: rlcard's own game, legal moves only."""

import numpy as np
import pytest

pytest.importorskip("rlcard", reason="the suite's extra is not installed")
from benchmarks.suite.tasks import doudizhu
from wolpertinger import Wolpertinger


def play(seed, choose):
    """The observations, legal moves and reward of a game."""
    env = doudizhu.DouDizhu()
    obs, _ = env.reset(seed=seed)
    seen, ended, reward = [obs], False, 0.0
    while not ended:
        obs, reward, ended, _, _ = env.step(choose(env))
        seen.append(obs)
    return np.array(seen), reward


def test_a_game_is_a_function_of_its_seed_and_leaves_numpys_generator_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - rlcard's players draw from it
    games = [play(3, lambda env: env.allowed_actions()[0]) for _ in range(2)]
    np.testing.assert_array_equal(games[0][0], games[1][0])
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert not np.array_equal(play(4, lambda env: env.allowed_actions()[0])[0][0], games[0][0][0])


def test_observations_and_legal_moves_are_rlcards():
    env = doudizhu.DouDizhu()
    obs, _ = env.reset(seed=0)
    for _ in range(3):
        state = env.game_env.get_state(0)
        np.testing.assert_array_equal(obs, state["obs"])
        assert set(env.allowed_actions()) == set(state["legal_actions"])
        for action, vector in state["legal_actions"].items():
            np.testing.assert_array_equal(doudizhu.moves().embed(action), vector)
        assert env.observation_space.contains(obs)
        obs, *_ = env.step(env.rule_move())


def test_an_illegal_move_is_counted_and_refused():
    env = doudizhu.DouDizhu()
    env.reset(seed=0)
    illegal = np.setdiff1d(np.arange(100), env.allowed_actions())[0]
    before = dict(env.counts)
    with pytest.raises(AssertionError, match=r"is none of \d+ legal ones"):
        env.step(illegal)
    assert env.counts == {"moves": before["moves"] + 1, "illegal": before["illegal"] + 1}
    env.counts.update(before)


def test_the_agent_makes_legal_moves_only():
    env, actions = doudizhu.make()
    agent = Wolpertinger("MlpPolicy", env, actions, learning_starts=30, buffer_size=200, seed=0).learn(60)
    share = doudizhu.wins(env, lambda obs, **known: agent.predict(obs, deterministic=True, **known)[0], games=4)
    assert 0 <= share <= 100
    assert env.counts["illegal"] == 0
