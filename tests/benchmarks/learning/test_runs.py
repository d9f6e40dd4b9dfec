"""Runs of the sweep, and the names of their files."""

import re
from pathlib import Path

import pytest

from benchmarks.learning import runs, search

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("default/puddle-world, n = 20/seed-1", "default--puddle-world-n-20--seed-1.json"),
        ("ablation/generated/k = 10 %/seed-0", "ablation--generated--k-10-percent--seed-0.json"),
        ("search/Complete Journey, 13,138 items/critic's search/seed-4", "search--complete-journey-13138-items--"),
        ("ablation/x/no anchor (the paper's actor)/seed-0", "ablation--x--no-anchor-the-papers-actor--seed-0.json"),
    ],
)
def test_a_name_becomes_a_file_name_of_letters_digits_and_hyphens(name, file):
    assert runs.result_path(name).name.startswith(file)


def test_every_run_has_a_file_of_its_own():
    names = [*runs.sweep(), *search.runs()]
    assert len({runs.result_path(name) for name in names}) == len(names)


def test_no_result_needs_quotes_in_a_shell():
    for folder in ("benchmarks/results", "results"):
        for path in (ROOT / folder).rglob("*"):
            assert re.fullmatch(r"[\w.-]+", path.name), path
