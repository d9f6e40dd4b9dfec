from wolpertinger import Transitions
from wolpertinger.cli import main


def test_a_run_is_recorded(run_folder, tmp_path, capsys):
    out = tmp_path / "log.parquet"
    assert main(["record", str(run_folder), "--out", str(out), "--rows", "200", "--epsilon", "0.3"]) == 0
    assert capsys.readouterr().out == f"log: {out}\n"
    assert len(Transitions.read(out)) >= 200
    assert main(["record", str(run_folder), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
