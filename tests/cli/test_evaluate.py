import json

import pytest

from wolpertinger.cli import main


def test_evaluate_prints_the_agent_beside_the_baselines(run_folder, capsys):
    assert main(["evaluate", str(run_folder), "--episodes", "50"]) == 0
    printed = capsys.readouterr().out
    for part in ("agent", "random", "best fixed item", "optimum", "100.0%", "distinct", "recommends", "curve.png"):
        assert part in printed


def test_evaluate_gives_numbers_as_json(run_folder, capsys):
    assert main(["evaluate", str(run_folder), "--episodes", "50", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exact"]
    assert found["score"]["share"] == pytest.approx(found["score"]["value"] / found["baselines"]["optimum"])
    assert found["sampled"]["episodes"] == 50
