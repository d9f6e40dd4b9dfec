import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.callbacks import BaseCallback

from tests.agent.envs import TargetEnv, grid
from wolpertinger import DDPG, ActionIds, ActionProduct, LogError, Transitions, Wolpertinger
from wolpertinger.actions import Allowed
from wolpertinger.agent.logged import join
from wolpertinger.learners import Batch

QUICK = {"updates": 20, "batch_size": 16, "buffer_size": 1_000, "seed": 0, "policy_kwargs": {"net_arch": [16, 16]}}
SET = grid(9, 1)


def target_log(rows=600, logged=tuple(range(9)), seed=0, **extra):
    """Episodes of one step of `TargetEnv`, whose actions are drawn from `logged`."""
    rng = np.random.default_rng(seed)
    obs = rng.uniform(-1, 1, (rows, 1)).astype(np.float32)
    actions = rng.choice(logged, rows)
    rewards = -np.abs(obs - SET.embed(actions))[:, 0]
    return Transitions(obs, actions, rewards, np.ones(rows), **extra)


def regret(agent, among):
    obs = np.linspace(-1, 1, 101, dtype=np.float32)[:, None]
    far = np.abs(obs - SET.embed(agent.predict(obs)[0]))[:, 0]
    return float((far - np.abs(obs - SET.embed(np.asarray(among))[:, 0]).min(axis=1)).mean())


@pytest.mark.parametrize("settings", [{}, {"candidates": "nearest", "critic": "mlp", "k": 4}])
def test_an_agent_learns_from_a_log_alone(settings):
    agent = Wolpertinger.from_log(
        target_log(), SET, **{**QUICK, "updates": 400, "batch_size": 64, "learning_rate": 3e-3, **settings}
    )
    assert regret(agent, range(9)) < 0.15  # a random policy's is 0.6
    assert agent._n_updates == 400


@pytest.mark.parametrize("actions", [SET, ActionIds(9)])
def test_what_the_log_never_took_is_never_picked(actions):
    log = target_log(logged=(1, 2, 5))
    obs = np.linspace(-1, 1, 101, dtype=np.float32)[:, None]
    agent = Wolpertinger.from_log(log, actions, **QUICK)
    assert set(agent.predict(obs)[0]) <= {1, 2, 5}
    assert set(agent.rank(obs, 3).actions.ravel()) == {1, 2, 5}
    free = Wolpertinger.from_log(log, actions, unlogged=True, **QUICK)
    assert set(free.rank(obs, 9).actions.ravel()) == set(range(9))


def test_what_the_log_allowed_may_be_picked():
    allowed = [[1, 2, 5, 7]] * 600
    agent = Wolpertinger.from_log(target_log(logged=(1, 2, 5), allowed=allowed), SET, **QUICK)
    assert np.concatenate(list(agent.actions.blocks(16))).tolist() == [1, 2, 5, 7]
    assert agent.predict(np.zeros((1, 1), np.float32), allowed=[[7, 2]])[0][0] in (2, 7)
    with pytest.raises(ValueError, match=r"give predict\(obs, allowed=\.\.\.\)"):
        agent.predict(np.zeros((1, 1), np.float32))


def test_a_set_that_cannot_be_restricted_is_not_searched():
    levels = ActionProduct([np.linspace(-1, 1, 3)] * 2, space="multidiscrete")
    log = Transitions(np.zeros((4, 1)), [[0, 0], [1, 1], [0, 2], [0, 0]], [1.0, 2.0, 3.0, 4.0], np.ones(4))
    with pytest.raises(ValueError, match=r'cannot be restricted to the 3 actions of the log.*candidates="nearest"'):
        Wolpertinger.from_log(log, levels, candidates="critic", critic="two-tower", **QUICK)
    agent = Wolpertinger.from_log(log, levels, **QUICK)
    assert agent.predict(np.zeros((1, 1), np.float32))[0].shape == (1, 2)


def test_a_saved_agent_keeps_to_the_log_and_predicts_the_same(tmp_path):
    obs = np.linspace(-1, 1, 50, dtype=np.float32)[:, None]
    for actions in (SET, ActionIds(9)):
        agent = Wolpertinger.from_log(target_log(logged=(1, 2, 5)), actions, **QUICK)
        agent.save(tmp_path / "agent.zip")
        loaded = Wolpertinger.load(tmp_path / "agent.zip")
        np.testing.assert_array_equal(loaded.predict(obs)[0], agent.predict(obs)[0])
        assert loaded.actions.n == 3


def test_the_same_seed_learns_the_same():
    one, other = (Wolpertinger.from_log(target_log(), SET, **QUICK) for _ in range(2))
    for own, theirs in zip(one.policy.parameters(), other.policy.parameters(), strict=True):
        assert torch.equal(own, theirs)


def test_states_as_numbers_are_discrete():
    log = Transitions(np.arange(40) % 4, np.arange(40) % 9, np.arange(40) % 3, np.ones(40))
    agent = Wolpertinger.from_log(log, ActionIds(9), **QUICK)
    assert agent.observation_space == spaces.Discrete(4)
    assert agent.predict(np.array([0, 3]))[0].shape == (2,)


class Stop(BaseCallback):
    def _on_step(self):
        return self.num_timesteps < 60


def test_a_callback_counts_updates_and_can_stop():
    agent = Wolpertinger.from_log(target_log(), SET, **{**QUICK, "updates": 500}, callback=Stop())
    assert agent._n_updates == 100  # it is asked after every 50


def test_a_bar_shows_updates(capsys):
    Wolpertinger.from_log(target_log(), SET, **QUICK, progress_bar=True)
    assert "20/20" in "".join(capsys.readouterr())


def test_learning_goes_on_in_an_environment_with_half_of_each_batch_from_the_log():
    log = target_log(rows=300)
    env = TargetEnv(SET)
    agent = Wolpertinger.from_log(log, SET, **QUICK)
    agent.learn(200, env=env)
    assert agent.replay_buffer.size() == 200
    assert agent.num_timesteps == 200
    agent.replay_buffer.rewards[:] = 7.0
    assert (agent._sample(16).rewards == 7.0).sum() == 8
    agent.mix_with(log, share=0.25)
    assert (agent._sample(16).rewards == 7.0).sum() == 12
    agent.mix_with(log, share=0)
    assert (agent._sample(16).rewards == 7.0).all()


def test_several_environments_may_follow_a_log():
    agent = Wolpertinger.from_log(target_log(rows=300), SET, **QUICK)
    envs = gym.vector.SyncVectorEnv([lambda: TargetEnv(SET)] * 4, autoreset_mode=AutoresetMode.SAME_STEP)
    agent.learn(100, env=envs)
    assert agent.replay_buffer.n_envs == 4
    assert agent.replay_buffer.size() == 25


def test_there_is_no_environment_to_go_on_in_until_one_is_given():
    agent = Wolpertinger.from_log(target_log(), SET, **QUICK)
    with pytest.raises(ValueError, match=r"there is no environment: give learn\(\.\.\., env=\.\.\.\)"):
        agent.learn(10)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"transitions": np.zeros(3)}, "transitions=.*give Transitions"),
        ({"actions": 9}, "actions=9: give an action set"),
        ({"actions": ActionIds(8)}, r"action is not in ActionIds\(8\)"),
        ({"updates": 0}, "updates=0"),
        ({"unlogged": 1}, "unlogged=1"),
        ({"n_steps": 3}, "n_steps=3: a log is learned from one step at a time"),
        (
            {"observation_space": spaces.Box(-1, 1, (3,))},
            r"the log's observations have shape \(1,\), the agent's \(3,\)",
        ),
        ({"observation_space": spaces.Text(3)}, r"observations are Text\(.*: Box, Discrete, .* is needed"),
        ({"kk": 3}, "kk"),
    ],
)
def test_bad_arguments_are_refused(change, error):
    given = {"transitions": target_log(), "actions": SET, **QUICK, **change}
    with pytest.raises((ValueError, TypeError), match=error):
        Wolpertinger.from_log(**given)


def test_a_log_whose_returns_are_all_the_same_teaches_nothing():
    log = Transitions(np.zeros((4, 1)), [0, 1, 2, 3], np.zeros(4), np.ones(4))
    with pytest.raises(LogError, match="every return of the log is 0: there is nothing to learn from it"):
        Wolpertinger.from_log(log, SET, **QUICK)


def test_a_log_is_needed_to_learn_from():
    agent = Wolpertinger("MlpPolicy", TargetEnv(SET), seed=0, learner=DDPG())
    with pytest.raises(ValueError, match="there is no log: give one to mix_with"):
        agent.learn_from_log(5)


def test_batches_join_only_where_both_say_what_is_allowed():
    def batch(allowed):
        parts = torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64), torch.zeros(2), torch.zeros(2, 1), torch.ones(2)
        return Batch(*parts, next_allowed=Allowed([np.array([1])] * 2) if allowed else None)

    assert len(join(batch(True), batch(True)).next_allowed) == 4
    with pytest.raises(ValueError, match="must both say what states allow, or neither"):
        join(batch(True), batch(False))
