import io

import pytest
from rich.console import Console

from tests.experiments.lookup_fakes import made_up_result
from wolpertinger.experiments.lookup_report import judge, markdown, table, verdict


def judged(**numbers):
    """A made-up result with its verdict, and its only cell."""
    result = made_up_result(**numbers)
    (cell,) = result["cells"]
    cell |= judge(cell, result["contenders"], result["n"])
    return result, cell


def test_the_ratios_are_to_the_best_flann_and_to_the_best_of_all():
    _, cell = judged()
    assert (cell["best_flann"], cell["best"]) == ("FLANN a", "other")
    assert cell["times_flann"] == pytest.approx(8)
    assert cell["times_best"] == pytest.approx(3)
    assert cell["promise_held"]
    assert verdict(cell) == "holds"


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({"ours_recall": 0.98}, "holds"),
        ({"ours_recall": 0.975}, "promise missed by 1.5 points (± 0.002)"),
        ({"flann_ms": 0.09}, "slower than FLANN a"),
        ({"flann_ms": 0.4}, "4.0 times FLANN a's speed, 5 wanted"),
        ({"flann_ms": 0.4, "n": 13_138}, "holds"),
        ({"flann_ms": 0.5}, "holds"),
        ({"flann_ms": None}, "holds; no FLANN index reached the recall within 7.0 times our time"),
        ({"flann_ms": None, "other_ms": None}, "holds; no FLANN index reached the recall within 7.0 times our time"),
        ({"ours_recall": 0.9, "flann_ms": 0.05}, "promise missed by 9.0 points (± 0.002); slower than FLANN a"),
    ],
)
def test_the_verdict_follows_from_the_numbers(numbers, expected):
    assert verdict(judged(**numbers)[1]) == expected


def test_flann_stopped_too_early_decides_nothing():
    _, cell = judged(flann_ms=None, below_ms=0.3)
    assert cell["misses"] == ["undecided: FLANN was stopped below the recall at 3.0 times our time, 5 wanted"]
    assert not judged(flann_ms=None, below_ms=0.3, n=1_000)[1]["misses"]


def test_a_result_without_flann_says_so():
    result = made_up_result()
    (cell,) = result["cells"]
    cell["contenders"] = {"other": cell["contenders"]["other"]}
    cell |= judge(cell, result["contenders"], result["n"])
    assert verdict(cell) == "holds; FLANN was not measured"


def test_the_table_shows_every_contender_its_setting_and_what_is_missing():
    console = Console(width=170, file=io.StringIO())
    console.print(table(judged(flann_ms=0.09)[0]))
    printed = console.file.getvalue()
    for part in (
        "made-up: 1,000,000 x 20",
        "ours IVF16,Flat, nprobe 3",
        "slower than FLANN a",
        "FLANN a, checks 1,234",
        "other, ef 1,234",
        "stopped after 4 s at checks 9",
        "not installed: pip install absent",
        "64 at k = 1",
    ):
        assert part in printed


@pytest.mark.parametrize("flann_ms", [0.8, None])
def test_markdown_has_one_row_for_each_cell(flann_ms):
    text = markdown(judged(flann_ms=flann_ms)[0])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 3
    assert len({row.count("|") for row in rows}) == 1
    assert "0.992 (± 0.002)" in rows[2]
    assert "- absent: not installed: pip install absent." in text
