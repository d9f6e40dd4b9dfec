"""Exploration: before the lookup, by the schedule, from the right subset."""

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.env_util import make_vec_env

from wolpertinger import ActionProduct, ActionTable, Exploration
from wolpertinger.agent.exploration import Explorer

from .envs import GuidedEnv, TargetEnv, greedy, scramble_all, small_agent


def explorer(n=10, seed=0, **kwargs):
    return Explorer(Exploration(**kwargs), ActionProduct([np.arange(n)]), seed)


def draw(actions, count):
    """Random actions, none of them guided."""
    return Explorer(Exploration(), actions, 0).draw(np.arange(count), lambda places: [])


def test_noise_is_on_the_proto_action_before_the_lookup():
    env = TargetEnv(length=5)
    agent = small_agent(env, k=1, learning_starts=0, exploration=Exploration(sigma=0.5), gradient_steps=0)
    scramble_all(agent)
    noisy, perturb = [], agent.explorer.perturb
    agent.explorer.perturb = lambda unit, progress: (noisy.append(perturb(unit, progress)), noisy[-1])[1]
    agent.learn(40)
    np.testing.assert_array_equal(env.executed, env.set.nearest(np.concatenate(noisy), 1)[:, 0])
    protos = agent.actor(agent.replay_buffer.to_torch(agent.replay_buffer.observations[:40, 0])).detach().numpy()
    without = env.set.nearest(protos, 1)[:, 0]
    assert (without != env.executed).mean() > 0.8


@pytest.mark.parametrize("space", ["discrete", "multidiscrete"])
def test_whatever_is_executed_is_a_member_of_a(space):
    env = TargetEnv(ActionProduct([np.linspace(-1, 1, 5)] * 3, space=space), length=5)
    agent = small_agent(env, exploration=Exploration(sigma=3.0, epsilon=0.3)).learn(60)
    assert all(action in env.action_space for action in env.executed)
    stored = agent.replay_buffer.actions[:60, 0]
    np.testing.assert_array_equal(stored.reshape(60, *env.action_space.shape), env.executed)
    assert len(np.unique(env.executed, axis=0)) > 20


def test_no_noise_and_no_epsilon_follow_the_policy():
    env = TargetEnv(length=5)
    agent = small_agent(env, learning_starts=0, gradient_steps=0, exploration=greedy())
    scramble_all(agent)
    agent.learn(20)
    chosen, _ = agent.predict(agent.replay_buffer.observations[:20, 0], deterministic=True)
    np.testing.assert_array_equal(env.executed, chosen)


def test_gaussian_noise_has_its_size_and_no_memory():
    process = explorer(sigma=0.05)
    noise = np.array([process.perturb(np.zeros((1, 2), np.float32), 0.0)[0] for _ in range(5_000)])
    assert noise.std() == pytest.approx(0.05, rel=0.05)
    assert abs(np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1]) < 0.06
    assert noise.dtype == np.float32


def test_ornstein_uhlenbeck_noise_remembers():
    process = explorer(noise="ornstein-uhlenbeck", sigma=0.02, theta=0.15)
    noise = np.array([process.perturb(np.zeros((1, 2), np.float32), 0.0)[0] for _ in range(20_000)])
    assert np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1] == pytest.approx(0.85, abs=0.03)
    assert noise.std() == pytest.approx(0.02 / np.sqrt(1 - 0.85**2), rel=0.1)


def test_noise_begins_anew_where_an_episode_ended_and_only_there():
    process = explorer(noise="ornstein-uhlenbeck", sigma=0.01)
    for _ in range(50):
        process.perturb(np.zeros((3, 2), np.float32), 0.0)
    drift = process._drift.copy()
    process.reset(np.array([False, True, False]))
    np.testing.assert_array_equal(process._drift[[0, 2]], drift[[0, 2]])
    np.testing.assert_array_equal(process._drift[1], 0)
    assert np.abs(drift[1]).min() > 0


def test_the_agent_resets_the_noise_of_the_environment_whose_episode_ended():
    envs = iter((2, 3))
    vec_env = make_vec_env(lambda: TimeLimit(TargetEnv(length=None), max_episode_steps=next(envs)), n_envs=2)
    agent = small_agent(vec_env, learning_starts=0, exploration=Exploration("ornstein-uhlenbeck"), gradient_steps=0)
    resets = []
    agent.explorer.reset = lambda ended: resets.append(np.array(ended))
    agent.learn(12)
    began, steps = resets[0], np.array(resets[1:])  # the start of learning, then every step
    assert began.all()
    np.testing.assert_array_equal(steps[:, 0], [False, True] * 3)
    np.testing.assert_array_equal(steps[:, 1], [False, False, True] * 2)


def test_noise_stays_in_the_box():
    noisy = explorer(sigma=5.0).perturb(np.zeros((200, 3), np.float32), 0.0)
    assert (np.abs(noisy) <= 1).all()
    assert (np.abs(noisy) == 1).mean() > 0.5


def test_schedules_start_at_the_first_value_and_end_at_the_final_one():
    process = explorer(sigma=0.8, final_sigma=0.2, epsilon=1.0, final_epsilon=0.1, decay=0.5)
    assert [process.sigma(p) for p in (0, 0.25, 0.5, 1)] == pytest.approx([0.8, 0.5, 0.2, 0.2])
    assert [process.epsilon(p) for p in (0, 0.25, 0.5, 1)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    stays = explorer(sigma=0.8, epsilon=0.3)
    assert [stays.sigma(1), stays.epsilon(1)] == [0.8, 0.3]


def test_a_schedule_follows_the_training():
    asked = []
    agent = small_agent(exploration=Exploration(sigma=1.0, final_sigma=0.0, decay=0.5), learning_starts=0)
    agent.explorer.perturb = lambda unit, progress: (asked.append(agent.explorer.sigma(progress)), unit)[1]
    agent.learn(20)
    assert asked == pytest.approx([*np.linspace(1, 0, 11), *[0] * 9])


def test_random_actions_come_with_chance_epsilon():
    process = explorer(n=1_000_000, epsilon=0.3)
    assert process.at_random(4_000, 0.3).mean() == pytest.approx(0.3, abs=0.03)
    assert not process.at_random(4_000, 0.0).any()
    assert process.at_random(4_000, 1.0).all()


def test_no_candidates_are_looked_for_where_the_action_is_random():
    vec_env = make_vec_env(lambda: TargetEnv(length=5), n_envs=50)
    agent = small_agent(vec_env, learning_starts=0, exploration=Exploration(sigma=0.1, epsilon=0.4), gradient_steps=0)
    looked, rank = [], agent.policy.behaviour.rank
    agent.policy.behaviour.rank = lambda states, *args: (looked.append(len(states)), rank(states, *args))[1]
    agent.learn(2_000)
    assert sum(looked) / 2_000 == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize("space", ["discrete", "multidiscrete"])
def test_random_actions_are_uniform_over_a(space):
    _, counts = np.unique(draw(ActionProduct([[0, 1], [0, 1, 2]], space=space), 6_000), axis=0, return_counts=True)
    assert len(counts) == 6
    assert counts / 6_000 == pytest.approx(1 / 6, abs=0.02)


def test_ids_of_63_bits_are_drawn():
    assert draw(ActionProduct([[0, 1]] * 62), 100).max() > 2**61


def test_guided_actions_come_from_what_the_current_state_offers():
    env = GuidedEnv(length=4)
    small_agent(env, learning_starts=50, exploration=greedy(epsilon=1.0, guided=1.0), gradient_steps=0).learn(100)
    assert all(action in offered for offered, action in env.pairs)
    assert len({tuple(offered) for offered, _ in env.pairs}) > 50


def test_guided_actions_reach_their_own_environment():
    vec_env = make_vec_env(lambda: GuidedEnv(length=4), n_envs=3)
    small_agent(vec_env, exploration=greedy(epsilon=1.0, guided=1.0), gradient_steps=0).learn(60)
    for env in vec_env.envs:
        assert len(env.unwrapped.pairs) == 20
        assert all(action in offered for offered, action in env.unwrapped.pairs)


def test_the_share_of_guided_actions_is_kept():
    env = GuidedEnv(length=4)
    small_agent(env, learning_starts=600, exploration=greedy(epsilon=1.0, guided=0.4)).learn(600)
    assert np.mean([action in offered for offered, action in env.pairs]) == pytest.approx(0.4, abs=0.06)


def test_guided_digits_of_a_product():
    env = GuidedEnv(actions=ActionProduct([np.linspace(-1, 1, 9)] * 2, space="multidiscrete"), length=4)
    small_agent(env, exploration=greedy(epsilon=1.0, guided=1.0), gradient_steps=0).learn(30)
    assert all(any(np.array_equal(action, one) for one in offered) for offered, action in env.pairs)


def test_a_state_that_offers_nothing_gets_any_action():
    process = explorer(epsilon=1.0, guided=1.0)
    drawn = process.draw(np.arange(500), lambda places: [[] for _ in places])
    assert set(drawn) == set(range(10))


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_guided_needs_guided_actions(epsilon):
    # Without epsilon too: the warm-up is random, and its random actions are guided.
    with pytest.raises(ValueError, match=r"guided=0\.5 needs an environment with a method guided_actions\(\)"):
        small_agent(TargetEnv(), exploration=Exploration(epsilon=epsilon, guided=0.5))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"noise": "pink"}, "noise='pink': give 'gaussian', 'ornstein-uhlenbeck' or None"),
        ({"epsilon": 1.1}, r"epsilon=1\.1: give a finite number from 0 to 1"),
        ({"final_epsilon": -0.1}, r"final_epsilon=-0\.1: give a finite number from 0 to 1"),
        ({"guided": 2}, "guided=2: give a finite number from 0 to 1"),
        ({"epsilon": float("nan")}, "epsilon=nan: give a finite number from 0 to 1"),
        ({"sigma": -1.0}, r"sigma=-1\.0: give a finite number of at least 0"),
        ({"final_sigma": float("inf")}, "final_sigma=inf: give a finite number"),
        ({"theta": float("nan")}, "theta=nan: give a finite number"),
        ({"decay": 0}, "decay=0: give a finite number above 0, 1 at most"),
        ({"decay": 1.5}, r"decay=1\.5: give a finite number above 0, 1 at most"),
    ],
)
def test_bad_settings_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        Exploration(**settings)


def test_a_ladder_spreads_the_noise_over_the_environments():
    process = explorer(sigma=0.2, final_sigma=0.0, ladder=True)
    draws = np.array([process.perturb(np.zeros((5, 3)), progress=0.9) for _ in range(2_000)])  # whatever the progress
    assert draws.std(axis=(0, 2)) == pytest.approx([0.2, 0.15, 0.1, 0.05, 0.0], rel=0.05)


def test_a_ladder_needs_its_end():
    with pytest.raises(ValueError, match="ladder=True: give noise, and final_sigma"):
        Exploration(sigma=0.2, ladder=True)
    with pytest.raises(ValueError, match="ladder=True: give noise"):
        Exploration(noise=None, final_sigma=0.1, ladder=True)
    with pytest.raises(ValueError, match="ladder='maybe': give True or False"):
        Exploration(final_sigma=0.1, ladder="maybe")


def test_a_ladder_of_one_rung_falls_over_the_training():
    process = explorer(sigma=0.4, final_sigma=0.0, ladder=True)
    assert process.perturb(np.zeros((1, 3)), progress=1.0).tolist() == [[0.0, 0.0, 0.0]]


def test_guided_actions_that_were_removed_are_not_taken():
    actions = ActionTable(np.eye(6))
    actions.remove([0, 1, 2])
    guided = Explorer(Exploration(epsilon=1.0, guided=1.0), actions, seed=0)
    taken = guided.draw(np.arange(200), lambda places: [np.array([0, 1, 4])] * len(places))
    assert set(taken) == {4}
    taken = guided.draw(np.arange(200), lambda places: [np.array([0, 1])] * len(places))
    assert set(taken) == {3, 4, 5}  # nothing of the subset is there: one of all
