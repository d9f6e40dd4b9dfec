"""What the numbers of a lookup result say: how much quicker ours is, what it misses, and why.

Nothing of this is stored: a result is judged when it is shown, so that one rule judges files of every age.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SLACK = 0.01  # a promised recall is held within one point
LARGE = 1_000_000  # vectors, from which on...
CAREFUL, WANTED = 0.99, 5.0  # ...at this recall, we want to be so many times quicker than FLANN
CALL_MS = 1.0  # in batches that take less, a call's fixed costs show: about 0.06 ms


@dataclass(frozen=True)
class Rivals:
    """The best of some contenders in one cell; `times` and `at_least` are their time over ours."""

    best: str | None
    """The quickest that reached the recall."""
    times: float | None
    stopped: str | None
    """One that its budget stopped below the recall earlier than that: with more time it might have been the best."""
    at_least: float | None
    """The last attempt of the one that was stopped; more effort takes longer."""


@dataclass(frozen=True)
class CellVerdict:
    """One cell, judged by its numbers."""

    flann: Rivals
    everyone: Rivals
    misses: list[str]
    remarks: list[str]

    def __str__(self) -> str:
        return "; ".join([*(self.misses or ["holds"]), *self.remarks])


def judge(cell: Mapping[str, Any], result: Mapping[str, Any]) -> CellVerdict:
    """Judge ours against each contender at the cell's k and target; only what was measured is looked at."""
    names = [name for name in cell["contenders"] if result["contenders"][name]["is_flann"]]
    flann = _compare(cell, names)
    wanted = WANTED if cell["target"] >= CAREFUL and result["n"] >= LARGE else 1.0
    misses = [
        *_missed_promise(cell["ours"], cell["target"]),
        *_missed_speed(cell, flann, wanted, result["batch"]),
        *_undecided(cell, flann, wanted),
    ]
    return CellVerdict(flann, _compare(cell, cell["contenders"]), misses, _remarks(cell, flann, wanted, bool(names)))


def was_stopped(row: Mapping[str, Any]) -> bool:
    """Whether the budget ended a contender's climb below the target; else no setting of it gets there.

    Older files tell it only by their note.
    """
    return row["setting"] is None and bool(row.get("stopped", row["note"].startswith("stopped after")))


def _compare(cell: Mapping[str, Any], names: Iterable[str]) -> Rivals:
    rows, ours_ms = {name: cell["contenders"][name] for name in names}, cell["ours"]["ms"]
    reached = {name: row["ms"] / ours_ms for name, row in rows.items() if row["setting"] is not None}
    best = min(reached, key=reached.__getitem__, default=None)
    times = None if best is None else reached[best]
    tried = {name: row["ms_below"] / ours_ms for name, row in rows.items() if was_stopped(row)}
    earlier = {name: ratio for name, ratio in tried.items() if times is None or ratio < times}
    stopped = min(earlier, key=earlier.__getitem__, default=None)
    return Rivals(best, times, stopped, None if stopped is None else earlier[stopped])


def _missed_promise(ours: Mapping[str, Any], target: float) -> list[str]:
    if ours["recall"] >= target - SLACK:
        return []
    missed = f"promise missed by {100 * (target - ours['recall']):.1f} points (± {ours['standard_error']:.3f})"
    chosen = [trial["recall"] for trial in ours.get("trials", ()) if trial["chosen"]]
    return [f"{missed}: on the queries it was tuned on it found {chosen[0]:.3f}" if chosen else missed]


def _missed_speed(cell: Mapping[str, Any], flann: Rivals, wanted: float, batch: int) -> list[str]:
    if flann.times is None or flann.times >= wanted:
        return []
    if flann.times >= 1:
        missed = f"{flann.times:.2f} times {flann.best}'s speed, {wanted:g} wanted"
        reasons = [_choice(cell["ours"]), *_overshoot(cell)]
    else:
        missed = f"slower than {flann.best} ({flann.times:.2f} times)"
        reasons = [*_small(cell["ours"], batch), *_overshoot(cell)] or [_choice(cell["ours"])]
    return [f"{missed}: {', and '.join(reasons)}"]


def _choice(ours: Mapping[str, Any]) -> str:
    """What was chosen of ours, and what a scan would have taken."""
    if ours["recipe"] == "exact":
        return "ours is the exact scan, no index that keeps the recall was quicker"
    scans = [trial["seconds"] for trial in ours.get("trials", ()) if trial["recipe"] == "exact"]
    scan = f", the exact scan would take {1e3 * min(scans):.3g} ms" if scans else ""
    return f"ours is {ours['recipe']} at {ours['ms']:.3g} ms{scan}"


def _small(ours: Mapping[str, Any], batch: int) -> list[str]:
    took = batch * ours["ms"]
    return [f"our batch of {batch} takes {took:.2g} ms, where fixed costs of a call count"] if took < CALL_MS else []


def _overshoot(cell: Mapping[str, Any]) -> list[str]:
    """Whether ours found clearly more than was wanted."""
    ours, target = cell["ours"], cell["target"]
    clearly = ours["recall"] - 2 * ours["standard_error"] > target + SLACK
    return [f"ours found {ours['recall']:.3g} for {target:g}"] if clearly else []


def _undecided(cell: Mapping[str, Any], flann: Rivals, wanted: float) -> list[str]:
    """A FLANN index that was stopped so early that it might have come too near; beside a miss it is one more."""
    if flann.stopped is None or flann.at_least is None or flann.at_least >= wanted:
        return []
    undecided = "" if flann.times is not None and flann.times < wanted else "undecided: "
    return [f"{undecided}{_stop(cell, flann)}; {wanted:g} wanted"]


def _remarks(cell: Mapping[str, Any], flann: Rivals, wanted: float, measured: bool) -> list[str]:
    """What there is to say about FLANN where it is no miss."""
    if not measured:
        return ["FLANN was not measured"]
    if flann.best is None and flann.stopped is None:
        return ["no setting of FLANN reached the recall"]
    if flann.at_least is None or flann.at_least < wanted:
        return []
    if flann.best is None:
        return [f"no FLANN index reached the recall within {flann.at_least:.2f} times our time"]
    return [_stop(cell, flann)]


def _stop(cell: Mapping[str, Any], flann: Rivals) -> str:
    """What the last attempt of the FLANN index that was stopped had reached, in its own words."""
    assert flann.stopped is not None
    return f"{flann.stopped} {cell['contenders'][flann.stopped]['note']}, in {flann.at_least:.2f} times our time"
