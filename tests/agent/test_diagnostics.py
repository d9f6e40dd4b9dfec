"""The values in the log: there, finite, and what their names say."""

import csv
import math

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.logger import configure

from wolpertinger import ActionTable, Exploration
from wolpertinger.agent import diagnostics
from wolpertinger.index import ExactIndex, tune, tuned, tuning_run

from .envs import TargetEnv, greedy, scramble_all, small_agent

TRAIN = ["actor_loss", "critic_loss", "q_chosen", "q_candidates", "proto_distance", "reranked", "actor_saturation"]
COLUMNS = [*(f"train/{name}" for name in TRAIN), *(f"time/{name}" for name in ("lookup", "rerank", "update"))]


def last_row(agent, folder, steps=60):
    agent.set_logger(configure(str(folder), ["csv"]))
    agent.learn(steps, log_interval=1)
    agent.logger.close()
    with (folder / "progress.csv").open() as file:
        row = {name: text for name, text in list(csv.DictReader(file))[-1].items() if text}
    return {name: text if name == "lookup/index" else float(text) for name, text in row.items()}


def test_every_column_is_there_and_finite(tmp_path):
    row = last_row(small_agent(k=8), tmp_path)
    assert set(COLUMNS) <= row.keys()
    assert all(math.isfinite(row[name]) for name in COLUMNS)
    assert row["train/critic_loss"] >= 0
    assert row["train/q_chosen"] >= row["train/q_candidates"]
    assert 0 <= row["train/reranked"] <= 1
    assert 0 <= row["train/actor_saturation"] <= 1
    assert 0 < row["train/proto_distance"] < 3
    assert all(0 < row[f"time/{name}"] < 60 for name in ("lookup", "rerank", "update"))
    assert row["time/update"] > row["time/rerank"] / 2
    assert row["train/n_updates"] > 0


def test_one_candidate_is_never_reranked(tmp_path):
    row = last_row(small_agent(TargetEnv(length=20), k=1), tmp_path)
    assert row["train/reranked"] == 0
    assert row["train/q_chosen"] == pytest.approx(row["train/q_candidates"])
    # The nearest of 32 x 32 points is at most half a diagonal of the grid away.
    assert row["train/proto_distance"] <= math.sqrt(2) / 31 + 1e-6


@pytest.mark.parametrize(("k", "expected"), [(1, "VnnnV n Vn"), (2, "VVVVV V VV")])
def test_one_of_some_steps_with_one_candidate_is_valued_and_the_first_after_a_row_without(k, expected, monkeypatch):
    monkeypatch.setattr(diagnostics, "VALUED_EVERY", 4)
    agent = small_agent(TargetEnv(length=None), k=k, learning_starts=0, gradient_steps=0, exploration=Exploration())
    add, valued, features = agent.diagnostics.add_acting, [], agent.critic.features

    def watch(ranking, unit):
        valued.append("n")
        add(ranking, unit)

    def asked(obs):
        valued[-1] = "V"
        return features(obs)

    monkeypatch.setattr(agent.diagnostics, "add_acting", watch)
    monkeypatch.setattr(agent.critic, "features", asked)
    for row in expected.split():
        agent.learn(len(row), reset_num_timesteps=not valued)
        agent.dump_logs()
    assert "".join(valued) == expected.replace(" ", "")


def scrambled_agent():
    agent = small_agent(k=64, learning_starts=0, gradient_steps=0, exploration=greedy())
    scramble_all(agent)
    return agent


def test_many_candidates_are_reranked(tmp_path):
    row = last_row(scrambled_agent(), tmp_path)
    assert row["train/reranked"] > 0.5
    assert "train/actor_loss" not in row  # nothing was trained


def test_a_saturated_actor_is_seen(tmp_path):
    agent = scrambled_agent()
    agent.actor.mu[-2].weight.data *= 1e3
    assert last_row(agent, tmp_path)["train/actor_saturation"] > 0.9


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_a_row_is_the_mean_since_the_row_before(at_once, tmp_path, monkeypatch):
    """One episode of five steps, one row: its values are the means over these five steps."""
    monkeypatch.setattr(diagnostics, "STEPS_AT_ONCE", at_once)
    env = TimeLimit(TargetEnv(length=None), max_episode_steps=5)
    agent = small_agent(env, k=8, learning_starts=0, gradient_steps=0, exploration=greedy())
    scramble_all(agent)
    row = last_row(agent, tmp_path, steps=15)
    why = agent.explain(agent.replay_buffer.observations[10:15, 0])
    assert row["train/q_chosen"] == pytest.approx(why.q.max(axis=1).mean(), rel=1e-4)
    assert row["train/q_candidates"] == pytest.approx(why.q.mean(), rel=1e-4, abs=1e-6)
    distances = np.take_along_axis(why.distances, why.q.argmax(axis=1)[:, None], axis=1)
    assert row["train/proto_distance"] == pytest.approx(distances.mean(), rel=1e-4)
    assert row["train/reranked"] == pytest.approx((why.q.argmax(axis=1) != 0).mean())


def test_without_a_promise_nothing_is_said_of_the_lookup(tmp_path):
    assert not any(name.startswith("lookup/") for name in last_row(small_agent(), tmp_path))


def test_a_promise_kept_by_the_scan_is_in_the_log(tmp_path):
    vectors = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    row = last_row(small_agent(TargetEnv(ActionTable(vectors, recall=0.9), length=5)), tmp_path)
    assert (row["lookup/recall"], row["lookup/checked"], row["lookup/tunings"]) == (1, 0, 1)
    assert row["lookup/index"] == "exact"


def test_the_measured_recall_of_a_promise_is_in_the_log(tmp_path, monkeypatch):
    def time(_, index, repeats=3):  # the scan seems slow, so that an inverted file is chosen
        return 2.0 if isinstance(index, ExactIndex) else 1.0 + index.effort.nprobe / 100

    monkeypatch.setattr(tuning_run.TuningRun, "_time", time)
    monkeypatch.setattr(tune, "MAX_TUNING_QUERIES", 100)
    monkeypatch.setattr(tuned, "CHECKED_SHARE", 0.5)
    vectors = np.random.default_rng(0).uniform(-1, 1, (1_500, 2))
    actions = ActionTable(vectors, index="IVF16,Flat", recall=0.7)
    row = last_row(small_agent(TargetEnv(actions, length=5)), tmp_path)
    assert 0.5 < row["lookup/recall"] <= 1
    assert row["lookup/recall"] == pytest.approx(actions.health[0].recall, abs=0.2)
    assert 0 < row["lookup/checked"] <= actions.health[0].checked
    assert row["lookup/tunings"] >= 1
    assert row["lookup/index"].startswith("IVF16,Flat (nprobe")
