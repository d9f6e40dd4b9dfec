import json

from benchmarks.lookup.plot import _efficient, plot_lookup
from tests.benchmarks.lookup.fakes import made_up_result


def test_the_plot_is_drawn_from_the_file_only(tmp_path):
    result = json.loads(json.dumps(made_up_result(ours_recall=1.0)))
    path = plot_lookup(result, tmp_path / "new" / "lookup.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_settings_that_another_one_beats_are_left_out_of_the_line():
    points = [{"ms": 2, "recall": 0.5}, {"ms": 1, "recall": 0.6}, {"ms": 3, "recall": 0.9}, {"ms": 3, "recall": 0.8}]
    assert _efficient(points) == [points[1], points[2]]
