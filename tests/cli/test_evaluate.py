import json

import pytest

from wolpertinger.cli import main


def test_evaluate_prints_the_agent_beside_the_baselines(run_folder, capsys):
    assert main(["evaluate", str(run_folder), "--episodes", "50"]) == 0
    printed = capsys.readouterr().out
    for part in ("agent", "random", "best fixed item", "optimum", "100.0%", "distinct", "recommends", "curve.png"):
        assert part in printed


def test_evaluate_shows_ranked_actions(run_folder, capsys):
    assert main(["evaluate", str(run_folder), "--episodes", "20", "--top", "3"]) == 0
    assert "best actions by the policy" in capsys.readouterr().out
    assert main(["evaluate", str(run_folder), "--episodes", "20", "--top", "3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["top"]
    assert len(rows) == 15
    for start in range(0, 15, 3):
        assert [row["place"] for row in rows[start : start + 3]] == [1, 2, 3]
        values = [row["value"] for row in rows[start : start + 3]]
        assert values == sorted(values, reverse=True)
        assert len({row["action"] for row in rows[start : start + 3]}) == 3


def test_evaluate_gives_numbers_as_json(run_folder, capsys):
    assert main(["evaluate", str(run_folder), "--episodes", "50", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exact"]
    assert found["score"]["share"] == pytest.approx(found["score"]["value"] / found["baselines"]["optimum"])
    assert found["sampled"]["episodes"] == 50
