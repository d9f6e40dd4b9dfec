import json

import numpy as np
import pytest

from benchmarks.lookup import bench as lookup
from benchmarks.lookup.bench import _count_queries, bench
from benchmarks.lookup.climb import CLOSE
from benchmarks.lookup.contenders import CONTENDERS, Entry
from benchmarks.lookup.sets import isotropic
from benchmarks.lookup.verdict import judge
from tests.benchmarks.lookup.fakes import FAKES, FakeContender, FakeTuner


@pytest.fixture(scope="module")
def tuners():
    """The tuners that were made, each a fake."""
    made = []

    def make(vectors, build_seconds):
        made.append(FakeTuner(vectors, build_seconds))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "Tuner", make)
        yield made


@pytest.fixture(scope="module")
def result(tuners):
    return bench(isotropic(rows=600), ks=(1, 0.05), targets=(0.9, 0.7), budget=20.0, contenders=FAKES)


def test_the_result_is_plain_json_with_a_cell_for_every_k_and_target(result):
    assert json.loads(json.dumps(result)) == result
    assert [(cell["k"], cell["target"]) for cell in result["cells"]] == [(1, 0.7), (1, 0.9), (30, 0.7), (30, 0.9)]
    assert (result["set"], result["n"], result["dim"]) == ("isotropic", 600, 20)
    assert [curve["k"] for curve in result["curves"]] == [1, 30]


def test_the_tuner_is_asked_once_for_each_promise(tuners, result):
    assert tuners[0].asked == [(2_048, 1, 0.7, 64), (2_048, 1, 0.9, 64), (2_048, 30, 0.7, 64), (2_048, 30, 0.9, 64)]
    for cell in result["cells"]:
        ours = cell["ours"]
        assert ours["recipe"] == "exact"
        assert ours["recall"] == 1.0
        assert ours["ms"] > 0
        assert [trial["chosen"] for trial in ours["trials"]] == [True, False]


def test_the_cheapest_setting_that_reaches_the_target_is_found_by_bisection(result):
    for cell in result["cells"][:2]:
        row = cell["contenders"]["good"]
        assert row["recall"] >= cell["target"]
        below = [p for p in result["curves"][0]["points"]["good"] if p["setting"] < row["setting"]]
        assert below[-1]["recall"] < cell["target"]
        assert row["setting"] <= CLOSE * below[-1]["setting"]
        assert row["ms"] > 0


def test_a_contender_that_never_gets_there_says_why(result):
    first, second, *_ = (cell["contenders"]["poor"] for cell in result["cells"])
    assert first["recall"] >= 0.7
    assert (second["setting"], second["stopped"], second["note"]) == (None, False, "no setting reached 0.9")
    assert second["ms_below"] > 0


def test_a_missing_library_is_a_line_and_no_crash(result):
    absent = result["contenders"]["absent"]
    assert absent["note"] == "not installed: pip install no-such-package"
    assert all("absent" not in cell["contenders"] for cell in result["cells"])
    assert result["contenders"]["good"]["note"] == "built by hand"


@pytest.mark.usefixtures("tuners")
def test_the_time_for_a_contender_is_bounded():
    said = []
    result = bench(isotropic(rows=600), ks=(1,), targets=(1.0,), budget=1e-6, contenders=FAKES, say=said.append)
    row = result["cells"][0]["contenders"]["good"]
    assert row["note"].startswith("stopped after 1e-06 s at care 1, recall 0.0")
    assert result["curves"][0]["points"]["good"][0]["queries"] == 8
    assert row["stopped"]
    assert any("good: built in" in line for line in said)


@pytest.mark.usefixtures("tuners")
def test_a_contender_at_the_end_of_its_settings_was_not_stopped():
    only = {"one": Entry(lambda: FakeContender("one", most=1), "numpy", "numpy", is_flann=True)}
    result = bench(isotropic(rows=600), ks=(1,), targets=(1.0,), budget=1e-6, contenders=only)
    row = result["cells"][0]["contenders"]["one"]
    assert (row["stopped"], row["note"]) == (False, "no setting reached 1.0")


@pytest.mark.usefixtures("tuners")
def test_recalls_go_by_their_names_too():
    result = bench(isotropic(rows=100), ks=(1,), targets=("medium", "fast", 0.7), budget=1.0, contenders={})
    assert result["targets"] == [0.7, 0.9]


def test_numbers_are_stored_and_no_verdicts(result):
    assert result["build_seconds"] == 600.0
    for cell in result["cells"]:
        assert cell.keys() == {"k", "target", "queries", "ours", "contenders"}


@pytest.mark.usefixtures("tuners")
def test_real_libraries_run_through_the_bench():
    pytest.importorskip("cv2")
    names = ["FLANN k-means tree", "FLANN autotuned", "usearch"]
    result = bench(
        isotropic(rows=900), ks=(1, 20), targets=(0.99,), budget=1.0, contenders={n: CONTENDERS[n] for n in names}
    )
    for cell in result["cells"]:
        verdict = judge(cell, result)
        assert verdict.flann.best in names
        assert cell["contenders"][verdict.flann.best]["recall"] >= 0.99
        assert verdict.flann.times >= verdict.everyone.times > 0


@pytest.mark.usefixtures("tuners")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ks": (601,)}, "k=601 is out of range for 600 actions"),
        ({"ks": (1.5,)}, "k=1.5 is not a share"),
        ({"targets": (0.0,)}, r"recall=0.0: give a share of the true neighbours in \(0, 1\]"),
    ],
)
def test_what_cannot_be_measured_is_an_error(change, message):
    with pytest.raises(ValueError, match=message):
        bench(isotropic(rows=600), contenders=FAKES, **change)


def test_larger_k_need_fewer_queries():
    counts = [_count_queries(k) for k in (1, 30, 131, 656, 4_999, 5_000, 50_000)]
    assert counts == [2_048, 2_048, 448, 256, 256, 64, 64]
    assert not any(np.array(counts) % 64)
