import json

import pytest

from reproduction.__main__ import main
from reproduction.items import ITEMS


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_list_names_every_item_and_what_is_left(here, capsys):
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ITEMS)
    assert not list(here.iterdir())


def test_an_item_is_reproduced_and_its_report_written_again(here, capsys):
    assert main(["lemma", "--seeds", "1", "--report"]) == 2
    assert "results holds no results" in capsys.readouterr().err
    (here / "results" / "runs").mkdir(parents=True)
    assert main(["--report"]) == 0
    assert "report: results/report.html" in capsys.readouterr().out
    assert "missing" in (here / "results" / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure-1"], "figure-1: there is no such item"),
        (["--budget", "0"], "--budget 0.0: give more than 0 seconds"),
    ],
)
def test_bad_input_is_named(arguments, message, here, capsys):
    assert main([*arguments]) == 2
    assert message in capsys.readouterr().err


def test_results_of_another_budget_are_not_mixed(here, capsys):
    (here / "results").mkdir()
    plan = {"name": "full", "seeds": 2, "seconds": 5.0, "speed_seconds": None}
    (here / "results" / "plan.json").write_text(json.dumps(plan))
    assert main(["--list", "--budget", "7"]) == 2
    assert "results holds a full reproduction, each run of 5 seconds: leave out" in capsys.readouterr().err
    assert main(["--list", "--seeds", "4", "--budget", "5"]) == 0  # more seeds are welcome
    assert main(["--list"]) == 0
