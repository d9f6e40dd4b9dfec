"""What Stable-Baselines3's own tests ask of its off-policy algorithms, asked of this one.

docs/stable-baselines3.md lists their files, where each is answered, and which do not apply.
"""

import io

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    EvalCallback,
    EveryNTimesteps,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from wolpertinger import Wolpertinger

from .envs import DictEnv, TargetEnv, small_agent

OBS = np.random.default_rng(0).uniform(-1, 1, (8, 2)).astype(np.float32)


def make_env():
    return TargetEnv(length=5)


def same_parameters(one, other):
    ours, theirs = one.get_parameters(), other.get_parameters()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours["policy"].items():
        assert torch.equal(tensor, theirs["policy"][name]), name


# test_deterministic.py
@pytest.mark.parametrize("settings", [{}, {"critic": None, "candidates": None, "learner": None}], ids=["paper", "auto"])
def test_the_same_seed_gives_the_same_training(settings):
    agents = [small_agent(Monitor(make_env()), seed=3, **settings).learn(80) for _ in range(2)]
    same_parameters(*agents)
    rewards = [agent.env.envs[0].get_episode_rewards() for agent in agents]
    assert rewards[0] == rewards[1]


# test_predict.py
def test_predict_takes_one_observation_or_many():
    agent, space = small_agent(), TargetEnv().action_space
    one, state = agent.predict(OBS[0], deterministic=True)
    assert state is None
    assert one in space
    assert agent.predict(OBS, deterministic=True)[0].shape == (8,)
    assert agent.predict(OBS[:1])[0].shape == (1,)
    env = make_vec_env(make_env, n_envs=2)
    assert agent.predict(env.reset())[0].shape == (2,)


# test_vec_envs.py, and every user with a slow environment
def test_environments_in_processes_of_their_own(tmp_path):
    env = make_vec_env(make_env, n_envs=2, vec_env_cls=SubprocVecEnv, vec_env_kwargs={"start_method": "fork"})
    try:
        agent = small_agent(env, learning_starts=10).learn(40)
        assert (agent.num_timesteps, agent.actions.n) == (40, TargetEnv().set.n)
        agent.save(tmp_path / "agent.zip")
        loaded = Wolpertinger.load(tmp_path / "agent.zip", env=env)
        assert loaded.learn(20, reset_num_timesteps=False).num_timesteps == 60
        assert np.isfinite(evaluate_policy(loaded, env, n_eval_episodes=4, warn=False)[0])
    finally:
        env.close()


# test_spaces.py
@pytest.mark.parametrize(
    "space",
    [spaces.MultiDiscrete([3, 4]), spaces.MultiBinary(5), spaces.Discrete(6), spaces.Box(0, 10, (2, 3), np.int32)],
    ids=str,
)
def test_kinds_of_observations(space):
    class Env(TargetEnv):
        def observe(self):
            return self.observation_space.sample()

    env = Env(length=5)
    env.observation_space = space
    agent = small_agent(env, learning_starts=10).learn(30)
    assert agent.predict(space.sample())[0] in env.action_space


# test_train_eval_mode.py
class BatchNormExtractor(BaseFeaturesExtractor):
    def __init__(self, observation_space):
        super().__init__(observation_space, features_dim=2)
        self.norm = torch.nn.BatchNorm1d(2)

    def forward(self, obs):
        return self.norm(obs.float())


def test_batch_norm_learns_in_training_and_not_in_predicting():
    agent = small_agent(policy_kwargs={"features_extractor_class": BatchNormExtractor}, learning_starts=10)
    norm = agent.critic.features_extractor.norm
    before = norm.running_mean.clone()
    agent.learn(40)
    assert not torch.equal(norm.running_mean, before)
    trained = norm.running_mean.clone()
    first = agent.predict(OBS, deterministic=True)[0]
    np.testing.assert_array_equal(agent.predict(OBS, deterministic=True)[0], first)
    assert torch.equal(norm.running_mean, trained)


# test_save_load.py
def test_parameters_are_taken_out_and_put_back():
    one, other = small_agent(seed=1), small_agent(seed=2)
    parameters = one.get_parameters()
    assert {"policy"} <= parameters.keys()
    other.set_parameters(parameters)
    same_parameters(one, other)
    with pytest.raises(RuntimeError, match="Missing key"):
        other.set_parameters({**parameters, "policy": {}})


def test_a_file_that_is_open_and_another_number_of_environments(tmp_path):
    agent = small_agent(make_vec_env(make_env, n_envs=2), learning_starts=10).learn(40)
    file = io.BytesIO()
    agent.save(file)
    with (tmp_path / "agent.zip").open("wb") as opened:
        agent.save(opened)
    file.seek(0)
    for source in (file, tmp_path / "agent.zip"):
        loaded = Wolpertinger.load(source, env=make_vec_env(make_env, n_envs=3))
        same_parameters(agent, loaded)
        assert loaded.learn(30, reset_num_timesteps=False).n_envs == 3


# test_callbacks.py
class Counting(BaseCallback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def _on_training_start(self):
        self.calls.append("start")

    def _on_rollout_start(self):
        self.calls.append("rollout")

    def _on_step(self):
        self.calls.append("step")
        return True

    def _on_rollout_end(self):
        self.calls.append("rollout end")

    def _on_training_end(self):
        self.calls.append("end")


def test_callbacks_are_called_in_their_order():
    counting, seen = Counting(), []
    every = EveryNTimesteps(10, callback=Counting())
    agent = small_agent(make_env())
    agent.learn(30, callback=CallbackList([counting, every]))
    assert counting.calls == ["start", *["rollout", "step", "rollout end"] * 30, "end"]
    assert every.callback.calls.count("step") == 3
    agent.learn(10, callback=lambda locals_, globals_: seen.append(locals_["self"]) or True)
    assert seen == [agent] * 10
    agent.learn(10, callback=[Counting(), Counting()])


def test_callbacks_stop_at_a_threshold_or_without_improvement():
    enough = StopTrainingOnRewardThreshold(reward_threshold=-1e9, verbose=0)
    watch = EvalCallback(Monitor(make_env()), callback_on_new_best=enough, eval_freq=10, n_eval_episodes=1, verbose=0)
    assert small_agent(make_env()).learn(100, callback=watch).num_timesteps == 10
    bored = StopTrainingOnNoModelImprovement(max_no_improvement_evals=1, min_evals=1)
    options = {"eval_freq": 10, "n_eval_episodes": 1, "verbose": 0, "callback_after_eval": bored}
    agent = small_agent(make_env(), gradient_steps=0)
    watch = EvalCallback(Monitor(make_env()), **options)
    watch.best_mean_reward = 0.0  # which is never reached
    assert agent.learn(200, callback=watch).num_timesteps == 30


# test_vec_normalize.py
def test_evaluation_goes_by_the_statistics_of_the_training():
    train = VecNormalize(DummyVecEnv([lambda: Monitor(make_env())]), gamma=0.9)
    evaluated = VecNormalize(DummyVecEnv([lambda: Monitor(make_env())]), training=False, norm_reward=False)
    watch = EvalCallback(evaluated, eval_freq=20, n_eval_episodes=1, verbose=0)
    small_agent(train, gamma=0.9).learn(40, callback=watch)
    np.testing.assert_allclose(evaluated.obs_rms.mean, train.obs_rms.mean, atol=0.2)
    assert evaluated.obs_rms.count > 20


# test_logger.py
@pytest.mark.parametrize("interval", [1, 3])
def test_a_line_of_the_log_for_so_many_episodes(interval, tmp_path):
    agent = small_agent(make_env())
    agent.set_logger(configure(str(tmp_path), ["csv"]))
    agent.learn(60, log_interval=interval)
    agent.logger.close()
    assert len((tmp_path / "progress.csv").read_text().splitlines()) - 1 == 12 // interval


# test_run.py
@pytest.mark.parametrize(
    "settings",
    [
        {"train_freq": 4},
        {"train_freq": (3, "step"), "gradient_steps": -1},
        {"train_freq": (1, "episode")},
        {"n_steps": 3},
        {"gamma": 0.0},
        {"policy_kwargs": {"optimizer_class": torch.optim.AdamW, "optimizer_kwargs": {"weight_decay": 0.01}}},
        {"policy_kwargs": {"activation_fn": torch.nn.Tanh, "net_arch": {"pi": [8], "qf": [8, 8]}}},
        {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}},
    ],
    ids=str,
)
def test_settings_of_every_off_policy_algorithm(settings):
    agent = small_agent(make_env(), **settings).learn(60)
    assert agent._n_updates > 0
    assert all(torch.isfinite(tensor).all() for tensor in agent.policy.state_dict().values())


def test_training_by_episodes_is_for_one_environment():
    with pytest.raises(AssertionError, match="only one env"):
        small_agent(make_vec_env(make_env, n_envs=2), train_freq=(1, "episode")).learn(20)


# test_dict_env.py
def test_dict_observations_in_several_environments(tmp_path):
    env = make_vec_env(lambda: DictEnv(length=5), n_envs=2)
    agent = small_agent(VecNormalize(env, norm_obs_keys=["target"]), "MultiInputPolicy", learning_starts=10).learn(40)
    agent.save(tmp_path / "agent.zip")
    obs = env.reset()
    loaded = Wolpertinger.load(tmp_path / "agent.zip")
    np.testing.assert_array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])
