"""What users of Stable-Baselines3 do with an algorithm, done with this one."""

import csv

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback, StopTrainingOnMaxEpisodes
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import wolpertinger  # noqa: F401 - registers the environments
from wolpertinger import ActionProduct, Exploration, Wolpertinger

from .envs import DictEnv, GuidedEnv, ImageEnv, RoomEnv, TargetEnv, greedy, scramble_all, small_agent


def test_evaluate_policy():
    env = Monitor(TargetEnv(length=5))
    mean, spread = evaluate_policy(small_agent(), env, n_eval_episodes=4)
    assert -15 < mean < 0
    assert spread >= 0


def test_eval_callback_keeps_the_best_model(tmp_path):
    callback = EvalCallback(
        Monitor(TargetEnv(length=5)), eval_freq=25, n_eval_episodes=2, best_model_save_path=str(tmp_path), verbose=0
    )
    agent = small_agent().learn(60, callback=callback)
    best = Wolpertinger.load(tmp_path / "best_model.zip")
    assert np.isfinite(callback.best_mean_reward)
    assert best.num_timesteps in (25, 50)
    assert best.k == agent.k


def test_checkpoint_callback_with_the_replay_buffer(tmp_path):
    callback = CheckpointCallback(save_freq=30, save_path=str(tmp_path), save_replay_buffer=True)
    small_agent().learn(60, callback=callback)
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == [
        *("rl_model_30_steps.zip", "rl_model_60_steps.zip"),
        *("rl_model_replay_buffer_30_steps.pkl", "rl_model_replay_buffer_60_steps.pkl"),
    ]
    resumed = Wolpertinger.load(tmp_path / "rl_model_60_steps.zip", env=TargetEnv(length=5))
    resumed.load_replay_buffer(tmp_path / "rl_model_replay_buffer_60_steps.pkl")
    assert resumed.replay_buffer.pos == 59  # the callback comes before the step is stored
    assert resumed.learn(20, reset_num_timesteps=False).num_timesteps == 80


def test_a_callback_can_stop_the_training():
    agent = small_agent().learn(500, callback=StopTrainingOnMaxEpisodes(max_episodes=3))
    assert agent.num_timesteps == 15


def test_tensorboard(tmp_path):
    agent = small_agent(tensorboard_log=str(tmp_path)).learn(40)
    agent.logger.close()
    assert list((tmp_path / "Wolpertinger_1").glob("events.out.tfevents.*"))


def test_csv_logger(tmp_path):
    agent = small_agent()
    agent.set_logger(configure(str(tmp_path), ["csv"]))
    agent.learn(60)
    agent.logger.close()
    with (tmp_path / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["rollout/ep_rew_mean"]) < 0
    assert float(rows[-1]["train/learning_rate"]) == 1e-3


@pytest.mark.filterwarnings("ignore:rich is experimental")
def test_progress_bar():
    assert small_agent().learn(30, progress_bar=True).num_timesteps == 30


def test_four_environments():
    agent = small_agent(make_vec_env(lambda: TargetEnv(length=5), n_envs=4), gradient_steps=-1).learn(80)
    assert (agent.num_timesteps, agent.n_envs) == (80, 4)
    assert agent.replay_buffer.actions.shape == (250, 4, 1)
    assert agent._n_updates == 80 - 20


def test_four_environments_act_each_on_its_own_observation():
    vec_env = make_vec_env(lambda: TargetEnv(length=5), n_envs=4)
    agent = small_agent(vec_env, learning_starts=0, gradient_steps=0, exploration=greedy())
    scramble_all(agent)
    agent.learn(40)
    for i, env in enumerate(vec_env.envs):
        chosen, _ = agent.predict(agent.replay_buffer.observations[:10, i], deterministic=True)
        np.testing.assert_array_equal(env.unwrapped.executed, chosen)


def test_four_users_of_one_recommender():
    env = gym.make_vec("wolpertinger/Recommender-v0", num_envs=4, items=49)
    agent = small_agent(env, exploration=Exploration(epsilon=0.5, guided=0.5)).learn(80)
    assert (agent.num_timesteps, agent.n_envs, agent.actions.n) == (80, 4, 49)
    assert len(agent.ep_info_buffer) > 0
    mean, _ = evaluate_policy(agent, agent.get_env(), n_eval_episodes=4, warn=False)
    assert mean >= 0


def sync(mode, make=lambda: TimeLimit(TargetEnv(length=None), max_episode_steps=3)):
    return SyncVectorEnv([make] * 4, autoreset_mode=mode)


def test_gymnasiums_own_vector_environment():
    env = sync(AutoresetMode.SAME_STEP)
    agent = small_agent(env, actions=TargetEnv().set).learn(40)
    buffer = agent.replay_buffer
    assert buffer.dones[:9].sum() == buffer.timeouts[:9].sum() == 12
    last = np.array([[2, i] for i in range(4)])
    assert (buffer.next_observations[last[:, 0], last[:, 1]] != buffer.observations[3]).all()
    np.testing.assert_array_equal(buffer.next_observations[0], buffer.observations[1])


def test_gymnasiums_vector_environment_with_dict_observations():
    agent = small_agent(
        sync(AutoresetMode.SAME_STEP, lambda: DictEnv(length=3)), "MultiInputPolicy", actions=TargetEnv().set
    )
    assert agent.learn(40).num_timesteps == 40


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_another_way_to_reset_is_refused(mode):
    with pytest.raises(ValueError, match=rf"resets in mode .*{mode.name}: Stable-Baselines3 needs SAME_STEP"):
        small_agent(sync(mode), actions=TargetEnv().set)


def test_multidiscrete_actions():
    env = TargetEnv(ActionProduct([np.linspace(-1, 1, 5)] * 3, space="multidiscrete"), length=5)
    agent = small_agent(env).learn(40)
    action, _ = agent.predict(env.reset(seed=0)[0])
    assert action in env.action_space
    np.testing.assert_array_equal(agent.replay_buffer.actions[:40, 0], env.executed)


@pytest.mark.parametrize(
    ("env", "policy"),
    [(DictEnv(length=5), "MultiInputPolicy"), (ImageEnv(length=5), "CnnPolicy"), (RoomEnv(length=5), "MlpPolicy")],
    ids=["dict", "image", "room"],
)
def test_other_observations(env, policy):
    agent = small_agent(env, policy, buffer_size=100).learn(40)
    assert agent._n_updates == 20
    obs, _ = env.reset(seed=0)
    action, _ = agent.predict(obs, deterministic=True)
    assert action in env.action_space
    assert agent.explain(obs).chosen == action


def test_normalised_observations_and_rewards():
    vec_env = VecNormalize(DummyVecEnv([lambda: Monitor(TargetEnv(length=5))]), gamma=0.9)
    agent = small_agent(vec_env, gamma=0.9).learn(60)
    assert agent.get_vec_normalize_env() is vec_env
    stored = agent.replay_buffer.observations[:60, 0]
    assert np.abs(stored).max() <= 1  # raw in the buffer,
    batch = agent.replay_buffer.sample(50, env=vec_env)
    assert batch.observations.abs().max() > 1.05  # normalised when sampled
    assert agent.replay_buffer.rewards[:60].min() < -0.5


def test_the_agent_acts_on_normalised_observations():
    vec_env = VecNormalize(DummyVecEnv([lambda: Monitor(TargetEnv(length=5))]))
    agent = small_agent(vec_env, learning_starts=0, gradient_steps=0, exploration=greedy())
    scramble_all(agent)
    seen, rank = [], agent.policy.behaviour.rank
    agent.policy.behaviour.rank = lambda states, *args: (seen.append(states.obs), rank(states, *args))[1]
    agent.learn(30)
    assert max(obs.abs().max() for obs in seen) > 1.05


def test_returns_over_three_steps():
    agent = small_agent(TimeLimit(TargetEnv(length=None), max_episode_steps=7), n_steps=3, gamma=0.9).learn(60)
    batch = agent.replay_buffer._get_samples(np.array([0]))
    rewards = agent.replay_buffer.rewards[:3, 0]
    assert batch.discounts.item() == pytest.approx(0.9**3)
    assert batch.rewards.item() == pytest.approx(rewards @ [1, 0.9, 0.81])
    assert agent._n_updates == 40


def test_guided_exploration_in_a_normalised_environment():
    vec_env = VecNormalize(make_vec_env(lambda: GuidedEnv(length=5), n_envs=2))
    small_agent(vec_env, exploration=greedy(epsilon=1.0, guided=1.0)).learn(40)
    for env in vec_env.venv.envs:
        assert all(action in offered for offered, action in env.unwrapped.pairs)


def test_training_by_episodes():
    agent = small_agent(train_freq=(1, "episode"), gradient_steps=2).learn(50)
    assert agent._n_updates == 2 * (50 - 20) // 5
