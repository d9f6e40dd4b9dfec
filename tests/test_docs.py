"""What the documents say is so: their code runs, and their numbers are those of the committed results."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks import measure, tables
from benchmarks.learning import runs as learning_runs
from benchmarks.learning import tables as learning
from benchmarks.lookup import growth
from benchmarks.lookup import tables as lookup
from wolpertinger.threads import using_threads

ROOT = Path(__file__).parent.parent


def code_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


DOCUMENTS = ("README.md", *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))))
BLOCKS = [(name, i) for name in DOCUMENTS for i in range(len(code_blocks(name)))]


@pytest.mark.parametrize(("name", "number"), BLOCKS)
def test_the_code_of_the_documents_runs(name, number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code_blocks(name)[number], f"{name}, block {number}", "exec"), {})
    assert code_blocks(name)[number].count("wolpertinger") > 0


@pytest.mark.parametrize(("file", "name"), tables.TABLES)
def test_the_tables_are_those_of_the_result_files(file, name):
    text = (ROOT / file).read_text()
    assert tables.render(text, name, tables.TABLES[file, name]()) == text


def test_a_missing_result_reads_missing(monkeypatch, tmp_path):
    figure = re.compile(r"\d\s?%")
    assert figure.search(learning.claims_table())
    monkeypatch.setattr(learning_runs, "RESULTS", tmp_path)
    assert "missing" in learning.claims_table()
    assert figure.search(learning.claims_table()) is None
    for module in (measure, growth):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    assert lookup.lookup_table("isotropic") == "isotropic: missing"
    assert lookup.batch_table() == "missing"
    assert lookup.growth_table().count("missing") == 2 * len(growth.SIZES) + 2 * 2 * 2


def write_growth(folder, sizes):
    """Rows of one kind: one lookup takes 1 ms and n^0.5, the batch n^0.25; 10^8 rows are far off that."""
    row = {"recall": 0.95, "recipe": "IVF4,Flat", "setting": "", "bytes_per_vector": 90, "index_bytes_per_vector": 10}
    for n in sizes:
        times = {"one_ms": 1 + n**0.5, "batch_ms": n**0.25 if n <= 10**7 else 1e9}
        path = folder / f"isotropic-{n}.json"
        path.write_text(json.dumps(row | times | {"n": n}))


def test_growth_is_fitted_up_to_ten_million_rows_with_and_without_the_smallest(monkeypatch, tmp_path):
    monkeypatch.setattr(growth, "RESULTS", tmp_path)
    write_growth(tmp_path, [10**5, 10**6, 10**7, 10**8])
    assert "| one of a batch of 64 | isotropic | missing | 0.25 |" in lookup.growth_table()
    write_growth(tmp_path, [10**4])
    assert "| one lookup | isotropic | 0.50 | 0.50 |" in lookup.growth_table()
    assert "| one of a batch of 64 | isotropic | 0.25 | 0.25 |" in lookup.growth_table()
    assert "| one lookup | clustered | missing | missing |" in lookup.growth_table()


def test_the_command_of_a_growth_row_makes_it_again():
    expected = "python -m benchmarks.lookup.growth --kind clustered --rows 10000 --build-threads 3"
    assert growth.command("clustered", 10_000, 3) == expected


def test_a_growth_row_says_how_it_was_made(monkeypatch, tmp_path):
    monkeypatch.setattr(growth, "RESULTS", tmp_path)
    with using_threads(1):  # it sets them, and leaves them so
        row = json.loads(json.dumps(growth.measure("isotropic", 300, build_threads=1)))
    assert (row["tuner_build_seconds"], row["held_out"], row["build_threads"]) == (300.0, 200, 1)
    assert row["recall"] > 0.9


@pytest.mark.parametrize("error", [FileNotFoundError("git"), subprocess.CalledProcessError(128, "git")])
def test_a_result_outside_a_repository_has_no_commit(monkeypatch, error):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(measure.subprocess, "run", fail)
    assert measure.commit() is None


def test_no_path_of_one_machine_is_in_the_tree():
    for folder in ("src", "docs", "benchmarks", "reproduction", "results", "tests", ".ci"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".md", ".json", ".toml", ""} and path.is_file():
                assert not re.search(r"(?<![\w.])/(work|root|home)/", path.read_text()), path
