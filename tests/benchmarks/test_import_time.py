import json

import pytest

from benchmarks import import_time, measure


def test_ratios_are_of_medians():
    seconds = {import_time.BESIDE: [2.0, 1.0, 9.0], "import wolpertinger": [1.0, 1.0, 30.0]}
    assert import_time.ratios(seconds) == {"import wolpertinger": 0.5}


def test_the_result_holds_seconds_and_ratios(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    monkeypatch.setattr(import_time, "ROUNDS", 2)
    monkeypatch.setattr(import_time, "measure", lambda: {import_time.BESIDE: [2.0, 2.0], "import other": [3.0, 3.0]})
    import_time.main()
    result = json.loads((tmp_path / "import_time.json").read_text())
    assert result["command"] == "python -m benchmarks.import_time"
    assert result["ratios"] == {"import other": 1.5}
    assert result["seconds"]["import other"]["median"] == 3
    assert "import other: 1.50 times import stable_baselines3 (fails: at most 1.15)" in capsys.readouterr().out


def test_every_statement_runs_once_a_round_in_a_fresh_interpreter(monkeypatch):
    monkeypatch.setattr(import_time, "STATEMENTS", ("sum(range(10**7))", "import time; time.sleep(0.3)"))
    busy, idle = import_time.measure(2).values()
    assert len(busy) == len(idle) == 2
    assert min(busy) > 2 * max(idle) > 0  # waiting does not count


def test_a_statement_that_fails_is_an_error(monkeypatch):
    monkeypatch.setattr(import_time, "STATEMENTS", ("import no_such_package",))
    with pytest.raises(import_time.subprocess.CalledProcessError, match="no_such_package"):
        import_time.measure(1)
