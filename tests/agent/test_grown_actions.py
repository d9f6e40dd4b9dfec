"""Yesterday's agent and today's catalogue: tables that have got rows, or lost some, since the agent was saved."""

import io

import numpy as np
import pytest

from wolpertinger import ActionTable, CheckpointError, Wolpertinger

from .envs import TargetEnv, small_agent

VECTORS = np.random.default_rng(0).uniform(-1, 1, (60, 2)).astype(np.float32)
OLD, NEW = VECTORS[:50], VECTORS
OBS = np.random.default_rng(1).uniform(-1, 1, (64, 2)).astype(np.float32)


def old_agent(vectors=OLD, **settings):
    return small_agent(TargetEnv(ActionTable(vectors), length=5, offer=False), actions=ActionTable(vectors), **settings)


def saved(agent, **options):
    file = io.BytesIO()
    agent.save(file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("exclude", [(), ("actions",)], ids=["with its table", "with its hash"])
@pytest.mark.parametrize(
    "settings", [{"k": 8}, {"k": 0.5}, {"critic": "two-tower", "candidates": "critic", "k": 1}], ids=str
)
def test_the_agent_takes_a_table_that_has_grown(exclude, settings):
    agent, today = old_agent(**settings).learn(60), ActionTable(NEW)
    file = saved(agent, exclude=list(exclude))
    loaded = Wolpertinger.load(file, env=TargetEnv(today, length=5), actions=today)
    assert loaded.actions is today
    assert loaded.action_space.n == loaded.policy.action_space.n == 60
    assert loaded.k == (30 if settings["k"] == 0.5 else agent.k)
    grown = old_agent(**settings)  # the same by `add`, in the running agent
    grown.policy.load_state_dict(agent.policy.state_dict())
    grown.actions.add(NEW[50:])
    if settings["k"] != 0.5:  # which was a share of what there was
        np.testing.assert_array_equal(loaded.predict(OBS)[0], grown.predict(OBS)[0])
    loaded.learn(60, reset_num_timesteps=False)
    assert loaded.replay_buffer.actions.max() >= 50


def test_the_environments_own_table_may_have_grown():
    agent = small_agent(TargetEnv(ActionTable(OLD), length=5)).learn(30)
    today = TargetEnv(ActionTable(NEW), length=5)
    loaded = Wolpertinger.load(saved(agent), env=today)
    assert loaded.actions is today.set
    with pytest.raises(ValueError, match="Action spaces do not match"):
        Wolpertinger.load(saved(agent), env=TargetEnv(ActionTable(NEW[::-1].copy()), length=5))


def test_the_replay_buffer_comes_along():
    agent = old_agent().learn(60)
    loaded = Wolpertinger.load(saved(agent, include=["replay_buffer"]), actions=ActionTable(NEW))
    np.testing.assert_array_equal(loaded.replay_buffer.actions[:60], agent.replay_buffer.actions[:60])


def test_what_was_removed_yesterday_may_be_there_again_and_others_gone():
    agent = old_agent().learn(30)
    agent.actions.remove([3, 7])
    today = ActionTable(NEW)
    today.remove([7, 20, 55])
    loaded = Wolpertinger.load(saved(agent), actions=today)
    assert loaded.actions.n == 57
    assert not set(loaded.predict(OBS)[0]) & {7, 20, 55}


@pytest.mark.parametrize(
    "vectors",
    [NEW[::-1], NEW[:40], np.vstack([OLD[:49], NEW[50:]]), np.hstack([NEW, NEW])],
    ids=["reordered", "shorter", "one replaced", "of other dimensions"],
)
def test_a_table_with_other_rows_is_refused(vectors):
    with pytest.raises(CheckpointError, match="no table that begins with the same rows: ids and vectors"):
        Wolpertinger.load(saved(old_agent()), actions=ActionTable(vectors.copy()))


def test_spaces_follow_what_is_added():
    agent = old_agent().learn(30)
    agent.actions.add(NEW[50:])
    assert agent.action_space.n == agent.policy.action_space.n == 60
    with pytest.raises(ValueError, match="the environment takes 50 actions"):
        agent.set_env(TargetEnv(ActionTable(OLD), length=5, offer=False))
    agent.set_env(TargetEnv(ActionTable(NEW), length=5, offer=False))
    assert agent.learn(30, reset_num_timesteps=False).num_timesteps == 60
