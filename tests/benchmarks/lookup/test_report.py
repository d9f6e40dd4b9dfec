import io

import pytest
from rich.console import Console

from benchmarks.lookup.report import markdown, table
from tests.benchmarks.lookup.fakes import made_up_result

OLD_FIELDS = {
    "best_flann": "FLANN b",
    "times_flann": 20.0,
    "times_flann_at_least": None,
    "best": "FLANN b",
    "times_best": 20.0,
    "promise_held": True,
    "misses": [],
}


def printed(result):
    console = Console(width=200, file=io.StringIO())
    console.print(table(result))
    return console.file.getvalue()


def test_the_table_shows_every_contender_its_setting_and_what_is_missing():
    text = printed(made_up_result(flann_ms=0.09))
    for part in (
        "made-up: 1,000,000 x 20",
        "ours IVF16,Flat, nprobe 3",
        "slower than FLANN a",
        "FLANN a, checks 1,234",
        "other, ef 1,234",
        "stopped after 4 s at",
        "not installed: pip",
        "64 at k = 1",
    ):
        assert part in text


@pytest.mark.parametrize("flann_ms", [0.8, None])
def test_markdown_has_one_row_for_each_cell(flann_ms):
    text = markdown(made_up_result(flann_ms=flann_ms))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 3
    assert len({row.count("|") for row in rows}) == 1
    assert "0.992 (± 0.002)" in rows[2]
    assert "- absent: not installed: pip install absent." in text


def test_a_bound_is_marked_as_one():
    assert "| FLANN a, checks 1,234 | 2 | ≥ 9.00 | other, ef 1,234 | 3.00 |" in markdown(made_up_result(flann_ms=2.0))
    assert "| none |  | ≥ 9.00 | none | ≥ 9.00 |" in markdown(made_up_result(flann_ms=None, other_ms=None))


@pytest.mark.parametrize("show", [markdown, printed])
def test_verdicts_that_an_old_file_holds_are_not_looked_at(show):
    result = made_up_result(flann_ms=2.0, below_ms=0.2)
    new = show(result)
    result["cells"][0] |= OLD_FIELDS
    assert show(result) == new
    assert "undecided: FLANN b stopped" in markdown(result)
    assert "undecided" in printed(result)


@pytest.mark.parametrize(("stored", "said"), [({}, "600 s"), ({"build_seconds": 30.0}, "30 s")])
def test_the_caption_says_what_was_given_and_what_the_signs_mean(stored, said):
    text = markdown(made_up_result() | stored)
    assert "± is one standard error" in text
    assert "Each other library had 4 s to find its settings at each k" in text
    assert f"ours had up to {said} to build in (the library's own default is 60 s)" in text
