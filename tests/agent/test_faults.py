"""Transitions that are no numbers and updates that would do harm; tests/faults tries the same at random."""

import warnings

import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from tests.faults.numbers import LENGTH, FaultyEnv, all_finite, new_agent
from wolpertinger import Wolpertinger
from wolpertinger.agent.faults import BadTransitionError, Faults
from wolpertinger.learners import REJECTED

from .envs import DictEnv, TargetEnv, small_agent

NEAREST = {"critic": "mlp", "candidates": "nearest", "learner": "ddpg"}


def faulty(fault, mode, n_envs=2, steps=30, **options):
    envs = [FaultyEnv(i, fault) for i in range(n_envs)]
    return new_agent(NEAREST, envs, on_bad_transition=mode, **options), steps * n_envs


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # Stable-Baselines3's, of 1e39
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
@pytest.mark.parametrize("field", ["reward", "observation"])
def test_the_error_names_environment_step_and_field_and_nothing_of_the_step_is_stored(field, value):
    agent, steps = faulty((1, 12, field, value), "raise")
    with pytest.raises(BadTransitionError, match=rf"environment 1, step 12: the {field} holds .*nothing of that step"):
        agent.learn(steps)
    assert agent.replay_buffer.pos == agent._rows_stored == 11
    assert all_finite(agent)


def test_the_last_observation_of_an_episode_counts_too():
    agent, steps = faulty((0, 2 * LENGTH, "terminal observation", np.nan), "raise")
    with pytest.raises(BadTransitionError, match="environment 0, step 14: the terminal observation holds nan"):
        agent.learn(steps)


def test_a_part_of_an_observation_is_named():
    class Bad(DictEnv):
        def observe(self):
            return {**super().observe(), "target": np.full(2, np.nan, np.float32)}

    with pytest.raises(BadTransitionError, match=r"environment 0, step 0: the observation\['target'\] holds nan"):
        small_agent(Bad(points_per_axis=4), policy="MultiInputPolicy").learn(5)


def test_a_skipped_transition_is_replaced_by_another_environments_and_counted():
    agent, steps = faulty((1, 12, "reward", np.nan), "skip")
    agent.learn(steps)
    buffer = agent.replay_buffer
    assert agent.faults.bad_transitions == 1
    assert np.array_equal(buffer.next_observations[11, 1], buffer.next_observations[11, 0])
    assert buffer.rewards[11, 1] == buffer.rewards[11, 0]
    assert buffer.timeouts[[10, 11], 1].tolist() == [1, 1]  # no n-step return goes through it
    assert buffer.timeouts[[10, 11], 0].tolist() == [0, 0]


def test_where_there_is_no_other_environment_the_step_is_left_out():
    agent, steps = faulty((0, 12, "observation", np.inf), "skip", n_envs=1)
    agent.learn(steps)
    assert agent.faults.bad_transitions == 2  # to the bad observation, and from it
    assert agent.replay_buffer.pos == steps - 2
    assert agent.replay_buffer.timeouts[10, 0] == 1
    assert all_finite(agent)


def test_skipping_is_refused_where_bad_numbers_leave_traces():
    with pytest.raises(ValueError, match='on_bad_transition="skip" does not go with VecNormalize'):
        small_agent(VecNormalize(DummyVecEnv([TargetEnv])), on_bad_transition="skip")
    shared = {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}}
    with pytest.raises(ValueError, match="does not go with optimize_memory_usage=True"):
        small_agent(TargetEnv(), on_bad_transition="skip", **shared)
    with pytest.raises(ValueError, match="on_bad_transition='ignore': give one of 'raise', 'skip'"):
        small_agent(TargetEnv(), on_bad_transition="ignore")


def test_a_rejected_update_changes_neither_weights_nor_moments():
    agent = new_agent(NEAREST, [FaultyEnv(0, scale=1e30)])
    before = {name: tensor.clone() for name, tensor in agent.critic.state_dict().items()}
    with pytest.warns(UserWarning, match="10 updates in a row were rejected"):
        agent.learn(40)
    assert agent.faults.rejected_updates == agent._n_updates == 34
    assert all(torch.equal(tensor, before[name]) for name, tensor in agent.critic.state_dict().items())
    assert not agent.critic.optimizer.state_dict()["state"]


@pytest.mark.parametrize(("reward", "is_rejected"), [(1e15, False), (1e25, True)])
def test_what_adam_cannot_square_is_rejected(reward, is_rejected):
    agent = new_agent(NEAREST, [FaultyEnv(0, scale=reward)])
    with warnings.catch_warnings(action="ignore"):
        agent.learn(40)
    assert (agent.faults.rejected_updates > 0) == is_rejected
    assert all_finite(agent)


def test_in_standard_units_huge_rewards_are_ordinary_ones():
    agent = new_agent(NEAREST, [FaultyEnv(0, scale=1e30)], standardize=True)
    agent.learn(40)
    assert agent.faults.rejected_updates == 0
    assert all_finite(agent)


def test_the_warning_comes_once_for_each_row_of_rejections():
    faults = Faults()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(25):
            faults.count_update({REJECTED: torch.ones(())})
        faults.count_update({"critic_loss": torch.ones(())})
        for _ in range(9):
            faults.count_update({REJECTED: torch.ones(())})
    assert len(told) == 1
    assert faults.rejected_updates == 34


def test_an_agent_keeps_its_choice_in_files(tmp_path):
    small_agent(TargetEnv(), on_bad_transition="skip").save(tmp_path / "agent.zip")
    assert Wolpertinger.load(tmp_path / "agent.zip").on_bad_transition == "skip"
