import pytest

from benchmarks.lookup.verdict import judge, was_stopped
from tests.benchmarks.lookup.fakes import NEVER, made_up_result


def judged(**numbers):
    """The verdict on a made-up result's only cell: ours takes 0.1 ms, FLANN b was stopped at 0.9 ms."""
    result = made_up_result(**numbers)
    return judge(result["cells"][0], result)


def test_the_ratios_are_to_the_best_flann_and_to_the_best_of_all():
    verdict = judged()
    assert (verdict.flann.best, verdict.everyone.best) == ("FLANN a", "other")
    assert verdict.flann.times == pytest.approx(8)
    assert verdict.everyone.times == pytest.approx(3)
    assert (verdict.flann.stopped, verdict.flann.at_least) == (None, None)  # later than the best
    assert str(verdict) == "holds"


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({"ours_recall": 0.98}, "holds"),
        ({"flann_ms": 0.5}, "holds"),
        ({"flann_ms": 0.4, "n": 13_138}, "holds"),
        (
            {"ours_recall": 0.975},
            "promise missed by 1.5 points (± 0.002): on the queries it was tuned on it found 0.995",
        ),
        (
            {"flann_ms": 0.09},
            "slower than FLANN a (0.90 times): ours is IVF16,Flat at 0.1 ms, the exact scan would take 7 ms",
        ),
        (
            {"flann_ms": 0.4},
            "4.00 times FLANN a's speed, 5 wanted: ours is IVF16,Flat at 0.1 ms, the exact scan would take 7 ms",
        ),
        (
            {"ours_ms": 0.0075, "flann_ms": 0.007, "target": 0.7, "ours_recall": 0.804, "n": 13_138},
            "slower than FLANN a (0.93 times): our batch of 64 takes 0.48 ms, where fixed costs of a call count, "
            "and ours found 0.804 for 0.7",
        ),
        (
            {"ours_ms": 0.1, "flann_ms": 0.09, "target": 0.7, "ours_recall": 0.8},
            "slower than FLANN a (0.90 times): ours found 0.8 for 0.7",
        ),
    ],
)
def test_the_verdict_follows_from_the_numbers_and_says_why(numbers, expected):
    assert str(judged(**numbers)) == expected


def test_a_scan_that_is_too_slow_is_called_one():
    result = made_up_result(flann_ms=0.3)
    result["cells"][0]["ours"] |= {"recipe": "exact", "setting": ""}
    assert judge(result["cells"][0], result).misses == [
        "3.00 times FLANN a's speed, 5 wanted: ours is the exact scan, no index that keeps the recall was quicker"
    ]


def test_two_misses_are_both_told():
    assert [miss.split(":")[0] for miss in judged(ours_recall=0.9, flann_ms=0.05).misses] == [
        "promise missed by 9.0 points (± 0.002)",
        "slower than FLANN a (0.50 times)",
    ]


def test_a_flann_that_was_stopped_counts_beside_one_that_arrived():
    """Ours 1 ms, one FLANN stopped at 2 ms below the recall, the other there at 20 ms: that is not 20 times."""
    verdict = judged(ours_ms=1.0, flann_ms=20.0, below_ms=2.0)
    assert (verdict.flann.stopped, verdict.flann.at_least) == ("FLANN b", 2.0)
    assert verdict.misses == [
        "undecided: FLANN b stopped after 4 s at checks 9, recall 0.5, in 2.00 times our time; 5 wanted"
    ]


def test_a_bound_that_is_high_enough_holds_and_is_told():
    told = "FLANN b stopped after 4 s at checks 9, recall 0.5, in 9.00 times our time"
    assert str(judged(flann_ms=2.0)) == f"holds; {told}"
    assert str(judged(flann_ms=None)) == "holds; no FLANN index reached the recall within 9.00 times our time"


def test_a_miss_is_decided_even_if_another_flann_was_stopped():
    slow, stopped = judged(flann_ms=0.4, below_ms=0.2).misses
    assert slow.startswith("4.00 times FLANN a's speed, 5 wanted")
    assert stopped == "FLANN b stopped after 4 s at checks 9, recall 0.5, in 2.00 times our time; 5 wanted"


def test_flann_stopped_too_early_decides_nothing():
    assert str(judged(flann_ms=None, below_ms=0.3)).startswith("undecided: FLANN a stopped after 4 s at checks 9")
    assert not judged(flann_ms=None, below_ms=0.3, n=1_000).misses
    assert judged(flann_ms=None, below_ms=0.05, n=1_000).misses[0].endswith("in 0.50 times our time; 1 wanted")


def test_an_index_that_cannot_reach_the_recall_is_no_bound():
    assert str(judged(flann_ms=2.0, below_ms=0.2, note=NEVER)) == "holds"
    verdict = judged(flann_ms=None, below_ms=0.2, note=NEVER)
    assert verdict.flann.at_least is None
    assert str(verdict) == "holds; no setting of FLANN reached the recall"


@pytest.mark.parametrize(
    ("row", "stopped"),
    [
        ({"setting": 3, "note": "stopped after 1 s"}, False),
        ({"setting": None, "note": "stopped after 1 s"}, True),
        ({"setting": None, "note": "no setting reached 0.9"}, False),
        ({"setting": None, "stopped": True, "note": ""}, True),
        ({"setting": None, "stopped": False, "note": "stopped after 1 s"}, False),
    ],
)
def test_the_field_tells_who_was_stopped_and_without_it_the_note(row, stopped):
    assert was_stopped(row) is stopped


def test_a_result_without_flann_says_so():
    result = made_up_result()
    (cell,) = result["cells"]
    cell["contenders"] = {"other": cell["contenders"]["other"]}
    assert str(judge(cell, result)) == "holds; FLANN was not measured"
