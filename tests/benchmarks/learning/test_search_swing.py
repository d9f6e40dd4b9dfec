"""Falls of a policy on its way, and whom they are due to."""

import json

import numpy as np
import pytest

from benchmarks.learning import search_swing
from wolpertinger.envs import Recommender


def look(steps, share, **changes):
    numbers = {"target_share": 0.9, "believed": 1.0, "true": 2.0, "distinct": 3, "worst_item": 7, "in_states": 5}
    return {"steps": steps, "share": share, "accepted": 0.01, "price": 3.5, **numbers, **changes}


RUNS = [
    [look(10_000, 0.2), look(300_000, 0.8), look(400_000, 0.6), look(500_000, 0.75)],
    [look(10_000, 0.9), look(20_000, 0.1), look(300_000, 0.85, worst_item=8), look(400_000, 0.95)],
]


def test_falls_are_from_the_best_that_was_reached_deepest_first():
    found = search_swing.falls(RUNS)
    assert [(fall["seed"], fall["steps"]) for fall in found[:3]] == [(0, 400_000), (0, 500_000), (1, 300_000)]
    assert [fall["fall"] for fall in found[:3]] == pytest.approx([0.2, 0.05, 0.05])


def test_tables_read_missing_or_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.measure.RESULTS", tmp_path)
    assert search_swing.falls_table() == search_swing.summary_table() == "missing"
    (tmp_path / "learning").mkdir()
    (tmp_path / "learning" / "search_swing.json").write_text(json.dumps({"kinds": {"as it is": RUNS, "target": RUNS}}))
    assert "| 0, 400,000 | 60.0% (-20.0) | 90.0% | 7 | 5 | 1.0% | 3.50 |" in search_swing.falls_table()
    mean = np.mean([0.8, 0.6, 0.75, 0.85, 0.95])
    expected = f"| acting by the critic | {mean:.1%} | 20.0 | 75.0%, 95.0% | 90.0% | 0.0 | 90.0%, 90.0% |"
    assert expected in search_swing.summary_table()


def test_the_item_to_blame_is_the_one_that_began_to_lose():
    acceptance = np.array([[0.1, 0.5, 0.0], [0.1, 0.5, 0.0], [0.1, 0.5, 0.0]])
    env = Recommender(acceptance=acceptance, rewards=np.ones(3), vectors=np.eye(3))
    watcher = search_swing.Watcher(env.model)
    watcher.model = type("Agent", (), {"num_timesteps": 1, "critic": None, "critic_target": None})()
    policies = iter([[0, 1, 1], [1, 1, 1], [0, 2, 2], [1, 1, 1]])  # of critic and target, at two looks
    watcher.policy_of = lambda _: (np.array(next(policies)), np.ones(1))
    first, second = watcher.look(), watcher.look()
    assert (first["worst_item"], first["in_states"]) == (0, 1)
    assert (second["worst_item"], second["in_states"], second["accepted"]) == (2, 2, 0.0)
    assert first["share"] > second["share"]
    assert second["target_share"] == pytest.approx(1.0)
