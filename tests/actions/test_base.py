"""How k is read."""

import pytest

from wolpertinger.actions import resolve_k


@pytest.mark.parametrize(
    ("k", "n", "count"),
    [
        (0.05, 13_138, 656),
        (0.29, 100, 29),  # 28.999999999999996 in floats
        (0.05, 835, 41),
        (1.0, 7, 7),
        (1e-9, 7, 1),
        (1e-25, 2**100, 126_765),
        (1e-24, 10**30, 10**6),
        (1, 7, 1),
        (7, 7, 7),
        (2**80, 2**100, 2**80),
    ],
)
def test_counts_and_shares_are_exact(k, n, count):
    assert resolve_k(k, n) == count


@pytest.mark.parametrize("k", [0, -3, 11])
def test_a_count_out_of_range_is_an_error(k):
    with pytest.raises(ValueError, match=f"^k={k} is out of range for 10 actions: give a count from 1 to 10"):
        resolve_k(k, 10)


@pytest.mark.parametrize("k", [0.0, -0.1, 1.0001, 5.0, float("nan"), float("inf")])
def test_a_share_outside_0_to_1_is_an_error(k):
    with pytest.raises(ValueError, match=rf"^k={k!r} is not a share: give .* a share of A in \(0, 1\]"):
        resolve_k(k, 10)


@pytest.mark.parametrize("k", [True, "5", None, 1j])
def test_what_is_no_number_is_an_error(k):
    with pytest.raises(TypeError, match=r"^k=.* is not a number: give a count from 1 to 10"):
        resolve_k(k, 10)


def test_a_share_of_a_huge_set_is_refused_by_its_count():
    with pytest.raises(
        ValueError, match=r"k=0\.05 of \d+ actions are \d+ candidates: give a count of 16777216 at most"
    ):
        resolve_k(0.05, 2**100)
