"""How the claims are tested: from the results to a number, its interval and a verdict."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from benchmarks.speed.paper import SPEED_UP
from reproduction.evidence import (
    FAILS,
    HOLDS,
    OPEN,
    Evidence,
    Finding,
    cell,
    compare,
    judge,
    late,
    percent,
    points,
    text,
    times,
)
from reproduction.plan import PLANS, SPEED_TABLES, speed_key
from reproduction.statistics import Reals, estimate
from wolpertinger.envs.puddle_map import PuddleMap

Test = Callable[[Evidence], Finding]

GOOD, NEAR_OPTIMAL = 0.8, 0.95  # shares of the best known return
SIMILAR = 0.05  # of the optimum
UNSTABLE = 0.1  # standard deviation of the share over the second half of a run
STAYS = 3  # evaluations in a row
FEW_UPDATES = 10  # in all of a run
MORE = float(np.nextafter(0.0, 1.0))  # than nothing: a difference of exactly 0, as of collapsed runs, is no gain
SAME_SPEED = 1.25  # times, within which speeds are called equal
EMPTY = "S" + 49 * "." + "\n" + 48 * (50 * "." + "\n") + 49 * "." + "G"  # the paper's map without puddles
SMALL, LARGE = "recommender-835", "recommender-13138"


def _difference(first: Reals, second: Reals) -> Reals:
    return first - second


def ratio(first: Reals, second: Reals) -> Reals:
    """Not a number where nothing was earned: then nothing is decided."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(first, second)


def share(key: str, least: float = -np.inf, most: float = np.inf) -> Test:
    return lambda found: compare(found.shares(key), of=lambda only: only, unit=percent, least=least, most=most)


def gain(key: str, over: str, least: float = -np.inf, most: float = np.inf) -> Test:
    """How many points of the optimum one variant is above another."""
    return lambda found: compare(
        found.shares(key), found.shares(over), of=_difference, unit=points, least=least, most=most
    )


def relative(key: str, over: str, least: float, most: float) -> Test:
    """One variant's return as a share of another's."""
    return lambda found: compare(found.shares(key), found.shares(over), of=ratio, unit=percent, least=least, most=most)


def rates(key: str, over: str, least: float = -np.inf, most: float = np.inf) -> Test:
    """How many times the steps per second one cell of a table has of another."""
    return lambda found: cell(found.rates(key)[0] / found.rates(over)[0], times, least, most)


def linear_in_k(found: Evidence) -> Finding:
    ks = (131, 656, 1_313)  # all 13,138 are no lookup's: they take another way
    floor = 1 / found.rates("speed-recommender/k-1")[0]
    seconds = [1 / found.rates(f"speed-recommender/k-{k}")[0] - floor for k in ks]
    if min(seconds) <= 0:
        return Finding("no cost of k was measured", OPEN)
    exponent = float(np.polyfit(np.log(ks), np.log(seconds), 1)[0])
    return cell(exponent, lambda value: f"exponent {value:.2f}", 0.8, 1.2)


def lemma(found: Evidence) -> Finding:
    rows = found.results("lemma/monte-carlo")[0]["rows"]
    worst = max(abs(row["simulated"] - row["formula"]) / row["standard_error"] for row in rows)
    # Of so many independent normal deviates the largest is below 4.5 in all but one of 1,000 tries or so.
    return cell(worst, lambda value: f"at most {value:.1f} standard errors apart, {len(rows)} settings", most=4.5)


def lemma_predicts(found: Evidence) -> Finding:
    """The largest error of the prediction, as a share of what the critic gains from k = 1 to the largest k."""
    errors = [study["relative_error"] for study in found.studies(f"{SMALL}/k-5-percent")]
    note = "a trained actor's nearest action is nearly the best already; in the lemma distance plays no role"
    if any(error is None for error in errors):
        return Finding("candidates gain nothing", OPEN, note)
    return compare(errors, of=lambda only: only, unit=times, most=0.1, note=note)


def diminishing(family: str) -> Test:
    def test(found: Evidence) -> Finding:
        first, middle, last = (found.shares(f"{family}/k-{k}") for k in ("1", "5-percent", "100-percent"))
        return compare(first, middle, last, of=lambda a, b, c: (b - a) - (c - b), unit=points, least=MORE)

    return test


def few_like_all(family: str) -> Test:
    def test(found: Evidence) -> Finding:
        everything = found.shares(f"{family}/k-100-percent")
        few = [found.shares(f"{family}/k-{k}") for k in ("5-percent", "10-percent")]
        both = [estimate(shares, everything, of=_difference) for shares in few]
        above = all(each.low > SIMILAR for each in both)
        note = "both are better: in the same time all actions get fewer updates" if above else ""
        verdict = all_of(judge(each, -SIMILAR, SIMILAR) for each in both)
        return Finding(" and ".join(text(each, points) for each in both), verdict, note)

    return test


def all_of(verdicts: Iterable[str]) -> str:
    """The verdict of several: one that fails is enough to fail."""
    given = set(verdicts)
    return HOLDS if given == {HOLDS} else FAILS if FAILS in given else OPEN


def order_of_magnitude(found: Evidence) -> Finding:
    everything = found.rates("speed-recommender/k-13138")[0]
    ratios = [found.rates(f"speed-recommender/k-{k}")[0] / everything for k in (656, 1_313)]
    verdict = HOLDS if all(10**0.5 <= ratio <= 10**1.5 for ratio in ratios) else FAILS
    return Finding(" and ".join(map(times, ratios)), verdict)


def slow_at_5000(found: Evidence) -> Finding:
    first, second = found.shares("cart-pole/k-5000"), found.shares("cart-pole/k-1")
    steps = statistics.median(found.steps("cart-pole/k-1")) / statistics.median(found.steps("cart-pole/k-5000"))
    return compare(first, second, of=ratio, unit=percent, most=0.5, note=f"k = 1 made {times(steps)} the steps")


def lookup_matters(task: str, k: int, lookups: tuple[str, ...]) -> Test:
    def test(found: Evidence) -> Finding:
        scan = found.rates(f"{speed_key(task, k, 'exact')}-scan")[0]
        ratios = {lookup: found.rates(speed_key(task, k, lookup))[0] / scan for lookup in lookups}
        verdict = HOLDS if all(1 / SAME_SPEED <= ratio <= SAME_SPEED for ratio in ratios.values()) else FAILS
        return Finding(", ".join(f"{lookup} {times(ratio)}" for lookup, ratio in ratios.items()), verdict)

    return test


def only_fast_helps(found: Evidence) -> Finding:
    scan = found.rates("speed-cart-pole/k-1-scan")[0]
    ratios = {lookup: found.rates(f"speed-cart-pole/k-1-{lookup}")[0] / scan for lookup in ("slow", "medium", "fast")}
    slower = [ratios["slow"] < 1 / SAME_SPEED, ratios["medium"] < 1 / SAME_SPEED]
    verdict = HOLDS if all(slower) and ratios["fast"] > SAME_SPEED else FAILS
    note = "ours help at every setting" if min(ratios.values()) > SAME_SPEED else ""
    return Finding(", ".join(f"{lookup} {times(ratio)}" for lookup, ratio in ratios.items()), verdict, note)


def time_goes_into_q(found: Evidence) -> Finding:
    spent = found.results("speed-cart-pole/k-5000")[0]["time"]
    return cell(spent["rerank"] / (spent["rerank"] + spent["lookup"]), percent, least=0.9)


def _spread(found: Evidence, key: str) -> list[float]:
    """Each seed's standard deviation of the share over the second half of its training."""
    return [statistics.pstdev(late(result["curve"], 0.5)) for result in found.results(key)]


def unstable_at_1(found: Evidence) -> Finding:
    return compare(_spread(found, "puddle-world-1/k-1"), of=lambda only: only, unit=points, least=UNSTABLE)


def longer_is_better(found: Evidence) -> Finding:
    means = [estimate(found.shares(f"puddle-world-{n}/k-1")).value for n in PLANS]
    gain = estimate(found.shares("puddle-world-20/k-1"), found.shares("puddle-world-1/k-1"), of=_difference)
    trend = ", ".join(f"n = {n} {percent(mean)}" for n, mean in zip(PLANS, means, strict=True))
    return Finding(text(gain, points), judge(gain, least=MORE), trend)


def longer_is_faster(found: Evidence) -> Finding:
    """Steps until a seed stayed at most of the optimum for a while; n = 1 that never did counts with all its steps."""
    slow, quick = ([_reached(result["curve"]) for result in found.results(f"puddle-world-{n}/k-1")] for n in (1, 20))
    if None in quick:
        return Finding("n = 20 does not stay there in every seed", OPEN)
    steps = [own or result["steps"] for own, result in zip(slow, found.results("puddle-world-1/k-1"), strict=True)]
    note = f"{slow.count(None)} of {len(slow)} seeds of n = 1 never did, and count with all their steps"
    least = compare(steps, [own or 0.0 for own in quick], of=ratio, unit=times, least=1.0)
    return replace(least, note=note if None in slow else "")


def _reached(curve: dict[str, list[float]]) -> float | None:
    """The steps from which on a few evaluations in a row were good."""
    good = [share >= GOOD for share in curve["share"]]
    firsts = (place for place in range(len(good) - STAYS + 1) if all(good[place : place + STAYS]))
    return next((curve["steps"][place] for place in firsts), None)


def best_score(_: Evidence) -> Finding:
    best = PuddleMap.from_text(EMPTY).best_score
    note = "from corner to corner there are 98 moves, and the last one earns 250 instead of -1"
    return Finding(f"{best:g}", HOLDS if best == 150 else FAILS, note)


def all_too_slow(found: Evidence) -> Finding:
    rate, seconds = found.rates("speed-puddle-world/k-1048576")[0], found.results("puddle-world-20/k-1")[0]["seconds"]
    return cell(rate * seconds, lambda updates: f"{updates:.1f} updates in {seconds:.0f} seconds", most=FEW_UPDATES)


def speed_up(found: Evidence) -> Finding:
    ratio = found.rates("speed-puddle-world/k-1")[0] / found.rates("speed-puddle-world/k-1048576")[0]
    enough = judge(estimate(found.shares("puddle-world-20/k-1")), least=NEAR_OPTIMAL)
    note = "more than the paper's" if ratio > SPEED_UP else ""
    return Finding(times(ratio), enough if ratio >= SPEED_UP and enough != FAILS else FAILS, note)


def progression(found: Evidence) -> Finding:
    names = ("1", "1-percent", "5-percent", "10-percent", "100-percent")
    shares = [found.shares(f"{SMALL}/k-{name}") for name in names]
    verdict = all_of(judge(estimate(b, a, of=_difference), least=MORE) for a, b in pairwise(shares))
    return Finding(", ".join(percent(estimate(share).value) for share in shares), verdict)


def failed_to_learn(found: Evidence) -> Finding:
    share = estimate(found.shares(f"{LARGE}/k-1"))
    random, fixed = (found.baseline(f"{LARGE}/k-1", name) for name in ("random", "best fixed item"))
    verdict = judge(share, most=(random + fixed) / 2)
    note = f"random {percent(random)}, best fixed item {percent(fixed)}"
    return Finding(text(share, percent), verdict, note + ("; our agent learns at k = 1" if verdict == FAILS else ""))


def beats_fixed(key: str) -> Test:
    def test(found: Evidence) -> Finding:
        fixed = found.baseline(key, "best fixed item")
        note = f"best fixed item {percent(fixed)}"
        return compare(found.shares(key), of=lambda only: only - fixed, unit=points, least=MORE, note=note)

    return test


def equivalent(first: str, second: str) -> Test:
    return gain(first, second, -SIMILAR, SIMILAR)


def compact(found: Evidence) -> Finding:
    small, large = (_spread(found, f"recommender-49/dim-{dim}-k-1") for dim in (20, 200))
    return compare(small, large, of=_difference, unit=points, most=-MORE)


def helps_in_more_dimensions(found: Evidence) -> Finding:
    scan = found.rates("speed-puddle-world/k-1-scan")[0]
    ratios = {lookup: found.rates(f"speed-puddle-world/k-1-{lookup}")[0] / scan for lookup in ("medium", "fast")}
    verdict = HOLDS if min(ratios.values()) > SAME_SPEED else FAILS
    return Finding(", ".join(f"{lookup} {times(ratio)}" for lookup, ratio in ratios.items()), verdict)


def one_is_fastest(found: Evidence) -> Finding:
    ratios = {
        task: found.rates(speed_key(task, 1, "exact"))[0] / found.rates(speed_key(task, table.ks[1], "exact"))[0]
        for task, table in SPEED_TABLES.items()
    }
    verdict = HOLDS if min(ratios.values()) > 1 else FAILS
    return Finding(", ".join(f"{task} {times(ratio)}" for task, ratio in ratios.items()), verdict)


def few_steps(found: Evidence) -> Finding:
    return compare(found.steps("cart-pole/k-5000"), found.steps("cart-pole/k-1"), of=ratio, unit=percent, most=0.1)
