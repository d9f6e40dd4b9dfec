"""Copies, pickles and child processes after lookups: each finds what the parent does, and leaves the parent alone."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.agent.envs import small_agent
from wolpertinger import ActionIds, ActionProduct, ActionTable, Slate

VECTORS = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
SETS = {
    "exact": lambda: ActionTable(VECTORS),
    "HNSW8": lambda: ActionTable(VECTORS, index="HNSW8"),
    "recall": lambda: ActionTable(VECTORS, recall=0.9),
    "product": lambda: ActionProduct([[0.0, 1.0, 3.0]] * 3, space="multidiscrete"),
    "ids": lambda: ActionIds(30),
    "slate": lambda: Slate(ActionTable(VECTORS[:30]), 3),
}
WORKERS = Path(__file__).parent / "workers.py"


def look_up(actions):
    points = np.random.default_rng(1).normal(size=(5, actions.dim))
    return actions.nearest(points, 3).tolist()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda actions: pickle.loads(pickle.dumps(actions))])
@pytest.mark.parametrize("kind", SETS)
def test_a_copy_finds_the_same_and_is_its_own(kind, copied):
    actions = SETS[kind]()
    expected = look_up(actions)
    other = copied(actions)
    assert look_up(other) == expected
    assert (other.n, other.sha256, other.space) == (actions.n, actions.sha256, actions.space)
    if actions.is_changeable:
        other.remove(np.unique(expected))
        assert not np.isin(look_up(other), np.unique(expected)).any()
        assert look_up(actions) == expected


def test_a_copy_of_an_agent_predicts_the_same_and_learns_alone():
    agent = small_agent().learn(30)
    obs = np.random.default_rng(0).uniform(-1, 1, (9, 2)).astype(np.float32)
    expected = agent.predict(obs)[0].tolist()
    other = copy.deepcopy(agent)
    assert other.predict(obs)[0].tolist() == expected
    other.learn(30)
    assert agent.predict(obs)[0].tolist() == expected
    assert (agent.num_timesteps, other.num_timesteps) == (30, 30)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_child_processes_look_up_predict_and_step(method):
    """In a process of its own: others of this one may have threads, which a fork does not take along."""
    subprocess.run([sys.executable, "-W", "ignore", str(WORKERS), method], check=True, timeout=900)
