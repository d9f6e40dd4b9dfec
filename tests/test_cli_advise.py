import json

import pytest

from wolpertinger.cli import main


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    tiny = ["--items", "49", "--dim", "4", "--steps", "160", "--envs", "8", "--preset", "nearest"]
    tiny += ["--set", "learning_starts=64"]
    assert main(["train", "recommender", *tiny, "--set", "batch_size=16", "--out", str(folder)]) == 0
    return folder


def test_advice_is_a_table_sentences_a_file_and_a_plot(run_folder, capsys):
    assert main(["advise-k", str(run_folder), "--states", "10"]) == 0
    shown = capsys.readouterr()
    for part in ("Lemma 1", "critic", "steps/s", "return", "advised", "own", "Train with k = ", "Check: "):
        assert part in shown.out
    assert "return at k = 49" in shown.err
    assert (run_folder / "advise.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((run_folder / "advise.json").read_text())["task"] == "recommender"


def test_advice_as_json_is_nothing_else(run_folder, capsys):
    options = ["--states", "10", "--checkpoint", "last", "--no-measure", "--json"]
    assert main(["advise-k", str(run_folder), *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((run_folder / "advise.json").read_text())
    assert (found["checkpoint"], found["study"]["states"], found["check"]) == ("last", 10, None)


def test_what_is_no_run_is_refused_in_one_line(tmp_path, run_folder, capsys):
    assert main(["advise-k", str(tmp_path / "none")]) == 2
    assert "is no run folder: it holds no config.json" in capsys.readouterr().err
    (tmp_path / "config.json").write_text((run_folder / "config.json").read_text())
    assert main(["advise-k", str(tmp_path)]) == 2
    assert "has no checkpoint 'best': it has none yet" in capsys.readouterr().err


def test_no_states_are_refused(run_folder, capsys):
    with pytest.raises(SystemExit):
        main(["advise-k", str(run_folder), "--states", "0"])
    assert "0 is too few: give at least 1" in capsys.readouterr().err
