import shutil

import pytest

from reproduction.claims import CLAIMS, OURS
from reproduction.evidence import MISSING, Evidence
from reproduction.items import ITEMS
from reproduction.plan import Run
from reproduction.report import write_report
from reproduction.results import Results
from reproduction.tables import curve_rows, speed_rows
from tests.reproduction.tiny import tiny_variants


@pytest.fixture
def results(everything, tmp_path):
    """A copy to take things away from."""
    shutil.copytree(everything.folder / "runs", tmp_path / "runs")
    return Results(tmp_path)


def test_a_tiny_version_of_every_item_leaves_nothing_missing(results):
    page, document = write_report(results, tiny_variants())
    assert "missing" not in document.read_text()
    assert ">missing<" not in page.read_text()
    for item in ITEMS.values():
        assert item.title in document.read_text()
    assert (
        len(list((results.folder / "figures").glob("*.svg"))) == sum(hasattr(i, "panels") for i in ITEMS.values()) + 1
    )


def test_the_page_needs_nothing_but_itself(results):
    page, _ = write_report(results, tiny_variants())
    text = page.read_text()
    assert text.count("<svg") == len([item for item in ITEMS.values() if not hasattr(item, "task")])
    for outside in ("<script", "<link", "src=", 'href="http', "@import", "url(http"):
        assert outside not in text


def test_the_same_results_give_the_same_report(results):
    first = [path.read_text() for path in write_report(results, tiny_variants())]
    assert [path.read_text() for path in write_report(results, tiny_variants())] == first


@pytest.mark.parametrize("key", sorted(tiny_variants()))
def test_a_result_that_is_deleted_reads_missing_in_every_place(key, results):
    variants = tiny_variants()
    results.path(Run(variants[key], 0)).unlink()
    evidence = Evidence(results, variants)
    for item in ITEMS.values():
        if key in item.needs and hasattr(item, "task"):
            assert any(cell.startswith(MISSING) for row in speed_rows(item, evidence) for cell in row)
        elif key in item.needs and hasattr(item, "panels"):
            assert [MISSING] * 9 in [row[1:] for row in curve_rows(item, evidence)]
    needing = [claim for claim in CLAIMS + OURS if key in _needs(claim, results, variants)]
    for claim in needing:
        assert claim.find(evidence).verdict == MISSING


def _needs(claim, results, variants):
    """The keys that a claim asks for."""
    asked = set()

    class Watching(Evidence):
        def results(self, key):
            asked.add(key)
            return results_of[key]

    curve = {"share": [0.5], "seconds": [1.0], "steps": [1]}
    results_of = {key: [{"curve": curve, "steps": 1, "steps_per_second": 1.0}] for key in variants}
    evidence = Watching(results, variants)
    try:
        claim.test(evidence)
    except Exception:
        return asked
    return asked


def test_every_claim_belongs_to_an_item_and_finds_a_verdict(results):
    evidence = Evidence(results, tiny_variants())
    for claim in CLAIMS + OURS:
        assert claim.item in ITEMS
        found = claim.find(evidence)
        assert found.verdict in ("holds", "does not hold", "not decided"), claim.name
        assert found.measured
