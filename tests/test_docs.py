"""What the documents say is so: their code runs, and their numbers are those of the committed results."""

import re
from pathlib import Path

import pytest

from benchmarks import learning, lookup_growth, tables

ROOT = Path(__file__).parent.parent


def code_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(code_blocks("README.md"))))
def test_the_code_of_the_readme_runs(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code_blocks("README.md")[number], f"README.md, block {number}", "exec"), {})
    assert code_blocks("README.md")[number].count("wolpertinger") > 0


@pytest.mark.parametrize(("file", "name"), tables.TABLES)
def test_the_tables_are_those_of_the_result_files(file, name):
    text = (ROOT / file).read_text()
    assert tables.render(text, name, tables.TABLES[file, name]()) == text


def test_a_missing_result_reads_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(learning, "RESULTS", tmp_path)
    assert "missing" in learning.claims_table()
    assert re.search(r"\d %", learning.claims_table()) is None
    for module in (tables, lookup_growth):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    assert tables.lookup_table("isotropic") == "isotropic: missing"
    assert tables.batch_table() == "missing"
    assert tables.growth_table().count("missing") == 2 * len(lookup_growth.SIZES) + 1


def test_no_path_of_one_machine_is_in_the_tree():
    for folder in ("src", "docs", "benchmarks", "tests", ".ci"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".md", ".json", ".toml", ""} and path.is_file():
                assert not re.search(r"(?<![\w.])/(work|root|home)/", path.read_text()), path
