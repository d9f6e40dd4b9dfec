"""Which targets of speed hold, by the result files only: `python -m benchmarks.speed.verdict`."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.learning import runs as learning
from benchmarks.speed import results
from benchmarks.speed.paper import SPEED_UP, STEPS_PER_SECOND
from benchmarks.speed.results import cell, ratio, read, row, seconds

K = 656
LARGE_KS = tuple(2**power for power in range(10, 21))  # at which a step's time is its candidates'
BLOCK_K = 2**16  # whose candidates fill more than one block of anything
JUMP, EXPONENT = 1.25, 1.05
BLOCK_MEGABYTES = 64.0  # two of the 32 MB that a lookup takes for its temporaries
EQUAL = 0.95  # of the exact optimum, which no k can exceed
STRUCTURED = ("a million levels", "2^20 plans, 40 numbers", "cart-pole itself")
ISOTROPIC, CLUSTERED = "a million vectors, 20 numbers", "a million clustered vectors, 20 numbers"


@dataclass(frozen=True)
class TargetVerdict:
    """A target, what was wanted, what was measured."""

    target: str
    wanted: str
    measured: str
    verdict: str
    """"holds", "does not hold" or "missing"."""


@dataclass(frozen=True)
class Target:
    """A number that the result files give, and its bound."""

    name: str
    measure: Callable[[], float | None]
    least: float = -math.inf
    most: float = math.inf
    form: str = "{:.2f}"

    def judge(self) -> TargetVerdict:
        bound = f"at least {self.form.format(self.least)}"
        if self.least == -math.inf:
            bound = f"at most {self.form.format(self.most)}"
        found = self.measure()
        if found is None or math.isnan(found):
            return TargetVerdict(self.name, bound, "missing", "missing")
        if found == math.inf:
            return TargetVerdict(self.name, bound, "did not run", "does not hold")
        holds = self.least <= found <= self.most
        return TargetVerdict(self.name, bound, self.form.format(found), "holds" if holds else "does not hold")


def rerank_share() -> float | None:
    found = row("rerank", set="recommender")
    return None if found is None else found["cells"]["exact"]["share"]


def times_obvious() -> float | None:
    """Steps per second over the obvious implementation's, ratio by ratio within a round."""
    found = cell("recommender", K, "obvious")
    return None if found is None else found["times_ours"]


def times_exact() -> float | None:
    found = cell("recommender", K, "screened")
    return None if found is None else ratio(1.0, found["times_ours"])


def agreement() -> float | None:
    """The least share of equal choices with the paper's networks, whatever they have learned."""
    rows = [row for row in (read("screening") or {}).get("rows", []) if row["networks"] == "paper"]
    return min((row["agreement"] for row in rows), default=None)


def worst_floor() -> float | None:
    return _worst_of_structured(lambda found: found["ratio"]["median"])


def structured_share() -> float | None:
    return _worst_of_structured(lambda found: found["lookup_share"])


def _worst_of_structured(number: Callable[[dict], float]) -> float | None:
    found = [row("floor", set=name) for name in STRUCTURED]
    return max(number(entry) for entry in found if entry) if all(found) else None


def table_floor(name: str) -> float | None:
    found = row("floor", set=name)
    return None if found is None else found["ratio"]["median"]


def screened_rerank() -> float | None:
    found = (row("rerank", set="recommender") or {}).get("cells", {}).get("screened")
    return None if found is None else ratio(1.0, found["times_exact"])


def table_share(name: str) -> float | None:
    found = row("floor", set=name)
    return None if found is None else found["lookup_share"]


def costs() -> dict[int, float]:
    """What one candidate adds to a step, by k, in operations at the matrix-product rate of the same process.

    The step at k = 1 is taken off, and time is counted in products of matrices, so that a slower moment of the machine
    is no jump.
    """
    work = {row["k"]: row["seconds"] * row["flops_per_second"] for row in (read("growth") or {}).get("rows", [])}
    return {k: (operations - work[1]) / k for k, operations in work.items() if k in LARGE_KS and 1 in work}


def worst_jump() -> float | None:
    """The most that a candidate's cost rises from one k to twice that k."""
    cost = costs()
    return max(cost[2 * k] / cost[k] for k in cost if 2 * k in cost) if len(cost) == len(LARGE_KS) else None


def exponent() -> float | None:
    """Of k in the time of its candidates: the slope of a line through the logarithms."""
    cost = costs()
    if len(cost) < len(LARGE_KS):
        return None
    return float(np.polyfit(np.log(list(cost)), np.log([k * each for k, each in cost.items()]), 1)[0])


def peak_gigabytes() -> float | None:
    if (read("growth") or {}).get("failed"):
        return math.inf
    found = row("growth", k=2**20)
    return None if found is None else found["peak_bytes"] / 1e9


def memory_growth() -> float | None:
    """Megabytes that the peak grows by at most from k = 2^16, which is a block, to any larger one measured."""
    peaks = {row["k"]: row["peak_bytes"] for row in (read("growth") or {}).get("rows", []) if row["k"] >= BLOCK_K}
    return None if {BLOCK_K, 2**20} - peaks.keys() else (max(peaks.values()) - peaks[BLOCK_K]) / 1e6


def cells_missing() -> float:
    """Cells of the paper's three tables that have no time of ours."""
    wanted = [(task, k, index) for task, ks in STEPS_PER_SECOND.items() for k in ks for index in ks[k]]
    return sum(seconds(*place) is None for place in wanted)


def speed_up() -> float | None:
    """Steps per second of k = 1 over those of k = 100 %, on 2^20 plans, with the settings that learned it.

    Equal return: with k = 1 every seed's best checkpoint is worth at least 95 % of the exact optimum, so that no k can
    be worth more than 1.053 times as much. What k = 100 % would learn is not measured: it would take weeks.
    """
    runs = learning.results("default/puddle-world, n = 20")
    if not runs or min(run["evaluation"]["best"]["share"] for run in runs) < EQUAL:
        return None
    return ratio(seconds("puddle-world", 2**20, "default"), seconds("puddle-world", 1, "default"))


TARGETS = (
    Target("re-ranking 64 x 656, 20-d: share of the matrix-product rate", rerank_share, least=0.7, form="{:.1%}"),
    Target("k = 656: training steps/s over the obvious one's", times_obvious, least=2.5),
    Target("k = 656: screened steps/s over the exact one's", times_exact, least=2.0),
    Target("k = 656: screened re-ranking over the exact one", screened_rerank, least=2.0),
    Target("k = 656, 400-300: screened picks the same action", agreement, least=0.999, form="{:.2%}"),
    Target("k = 1, structured: step over DDPG's, worst of 3 sets", worst_floor, most=1.25),
    Target("k = 1, structured: lookup's share, worst of 3 sets", structured_share, most=0.05, form="{:.1%}"),
    Target("k = 1, 10^6 isotropic vectors: step over DDPG's", partial(table_floor, ISOTROPIC), most=1.25),
    Target("k = 1, 10^6 isotropic vectors: lookup's share", partial(table_share, ISOTROPIC), most=0.3, form="{:.1%}"),
    Target("k = 1, 10^6 clustered vectors: step over DDPG's", partial(table_floor, CLUSTERED), most=1.25),
    Target("k = 1, 10^6 clustered vectors: lookup's share", partial(table_share, CLUSTERED), most=0.3, form="{:.1%}"),
    Target("a candidate's cost from k to 2 k, most rise, k >= 1,024", worst_jump, most=JUMP),
    Target("exponent of k in the candidates' time, k >= 1,024", exponent, most=EXPONENT),
    Target("peak memory of k = 2^20, whole process, GB", peak_gigabytes, most=2.0),
    Target("peak memory from k = 2^16 to any larger, MB more", memory_growth, most=BLOCK_MEGABYTES, form="{:.0f}"),
    Target("cells missing in the paper's three tables", cells_missing, most=0, form="{:.0f}"),
    Target("speed-up k = 1 over k = 100 % at equal return", speed_up, least=SPEED_UP, form="{:,.0f}"),
)


def search_times() -> float | None:
    found = row("search", set="13,138 items")
    return None if found is None else found["cells"]["search"]["times_paper"]


def of_million(name: str) -> Callable[[], float | None]:
    """A number of the search among a million vectors."""

    def measure() -> float | None:
        found = row("search", set="a million vectors")
        return None if found is None else found[name]

    return measure


def search_milliseconds() -> float | None:
    found = row("search", set="a million vectors")
    return None if found is None else 1e3 * found["search_seconds"]["median"]


SEARCH_TARGETS = (
    Target("all 13,138 by the critic: step over the paper's at k = 1 %", search_times, most=1.0),
    Target(
        "a million: the critic's search finds the best of all", of_million("finds_the_best"), least=0.95, form="{:.1%}"
    ),
    Target("a million: search of one state on one thread, ms", search_milliseconds, most=2.0),
    Target("a million: keys' share of the training time", of_million("refresh_share"), most=0.1, form="{:.1%}"),
)


ALL_TARGETS = (*TARGETS, *SEARCH_TARGETS)


def judge() -> list[TargetVerdict]:
    return [target.judge() for target in ALL_TARGETS]


def table() -> Table:
    """The verdicts for the screen."""
    shown = Table(title="Speed: which targets hold", box=box.SIMPLE_HEAD)
    for heading, justify in (("target", "left"), ("wanted", "right"), ("measured", "right"), ("verdict", "left")):
        shown.add_column(heading, justify=justify, no_wrap=heading != "target")  # type: ignore[arg-type]
    colours = {"holds": "green", "does not hold": "red", "missing": "yellow"}
    for verdict in judge():
        shown.add_row(*vars(verdict).values(), style=colours[verdict.verdict])
    return shown


def main(arguments: Sequence[str] = ()) -> None:
    if arguments:  # a folder of trial results
        results.RESULTS = Path(arguments[0])
    Console(width=100).print(table())


if __name__ == "__main__":
    main(sys.argv[1:])
