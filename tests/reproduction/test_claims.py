"""Every claim on results whose verdict is known: each verdict it can have, and each boundary from both sides."""

import math

import pytest

from reproduction import checks
from reproduction.claims import CLAIMS, OURS
from reproduction.evidence import FAILS, HOLDS, OPEN
from reproduction.plan import PLANS, SPEED_TABLES, speed_key
from tests.reproduction.given import SEEDS, Given, find, learned, merge, restless, wide

SMALL, LARGE = "recommender-835", "recommender-13138"
LEVELS = ("1", "1-percent", "5-percent", "10-percent", "100-percent")
CASES = []


def case(name, expected, **given):
    CASES.append(pytest.param(name, expected, given, id=f"{name}-{expected}-{len(CASES)}"))


def at_least(name, key, bound):
    """Cases of one share that has to reach a bound."""
    case(name, HOLDS, shares={key: bound})
    case(name, FAILS, shares={key: math.nextafter(bound, 0)})
    case(name, OPEN, shares={key: wide(bound)})


def more_than(name, make, bound):
    """Cases of a difference that has to exceed nothing; `make` gives the shares in which it has a value."""
    case(name, HOLDS, shares=make(bound + 1e-9))
    case(name, FAILS, shares=make(bound))


def within(name, make, low, high, kind="shares"):
    """Cases of a number between two bounds; `make` gives the results in which it has a value."""
    for value, expected in (
        (low, HOLDS),
        (math.nextafter(low, -1), FAILS),
        (high, HOLDS),
        (math.nextafter(high, 99), FAILS),
        ((low + high) / 2, HOLDS),
    ):
        case(name, expected, **{kind: make(value)})


# One share against a bound
at_least("cart-pole k = 1", "cart-pole/k-1", 0.8)
at_least("cart-pole optimal", "cart-pole/k-1", 0.95)
at_least("cart-pole slow", "cart-pole/k-1-slow", 0.8)
at_least("cart-pole medium", "cart-pole/k-1-medium", 0.8)
at_least("cart-pole fast", "cart-pole/k-1-fast", 0.8)
at_least("near optimal at k = 1", "puddle-world-20/k-1", 0.95)
at_least("the lossiest lookup", "puddle-world-20/k-1-fast", 0.95)
at_least("13k above 60 %", f"{LARGE}/k-5-percent", 0.6)
at_least("835 above 88 %", f"{SMALL}/k-5-percent", 0.88)
for share, expected in ((0.4001, HOLDS), (0.4, FAILS), (wide(0.4), OPEN)):
    case("13k above a fixed item", expected, shares={f"{LARGE}/k-5-percent": share}, fixed=0.4)
for share, expected in ((0.25, HOLDS), (0.2501, FAILS), (wide(0.25), OPEN)):  # between random's 10 % and 40 %
    case("k = 1 fails on 13k", expected, shares={f"{LARGE}/k-1": share, f"{LARGE}/k-5-percent": 0.9}, fixed=0.4)


# Two shares
def pair(key, over):
    return lambda gained: {key: max(gained, 0.0), over: max(-gained, 0.0)}


def share_of(key, over):
    return lambda ratio: {key: ratio, over: 1.0}


for name, key, over, bound in (
    ("k = 1 is poor", f"{SMALL}/k-5-percent", f"{SMALL}/k-1", 0.05),
    ("5 % beats k = 1 on 13k", f"{LARGE}/k-5-percent", f"{LARGE}/k-1", 0.0),
    ("recall matters", f"{LARGE}/k-5-percent-slow", f"{LARGE}/k-5-percent-fast", 0.0),
):
    if bound:
        case(name, HOLDS, shares=pair(key, over)(bound))
        case(name, FAILS, shares=pair(key, over)(math.nextafter(bound, 0)))
    else:
        more_than(name, pair(key, over), bound)
    case(name, OPEN, shares={key: wide(0.5), over: 0.5 - bound})
    case(name, OPEN, shares={key: 0.5 + bound, over: wide(0.5)})

fast, medium = f"{LARGE}/k-5-percent-fast", f"{LARGE}/k-5-percent-medium"
within("fast like medium", pair(fast, medium), -0.05, 0.05)
case("fast like medium", OPEN, shares={fast: wide(0.5), medium: 0.5})
for name, family in (("uniform exploration on 835", SMALL), ("uniform exploration", LARGE)):
    uniform, guided = f"{family}/k-5-percent-uniform", f"{family}/k-5-percent"
    within(name, share_of(uniform, guided), 0.35, 0.65)
    case(name, OPEN, shares={uniform: wide(0.5), guided: 1.0})
    case(name, OPEN, shares={uniform: 0.0, guided: 0.0})
case("cart-pole k = 0.5 %", HOLDS, shares=share_of("cart-pole/k-5000", "cart-pole/k-1")(0.5))
case("cart-pole k = 0.5 %", FAILS, shares=share_of("cart-pole/k-5000", "cart-pole/k-1")(0.5001))
case("cart-pole k = 0.5 %", OPEN, shares={"cart-pole/k-5000": wide(0.5), "cart-pole/k-1": 1.0})


def stepped(first, second):
    """The results of cart-pole with so many steps."""
    return {"cart-pole/k-5000": [{"steps": each} for each in first], "cart-pole/k-1": [{"steps": 100}] * len(second)}


case("cart-pole few steps", HOLDS, results=stepped([10] * SEEDS, [100] * SEEDS))
case("cart-pole few steps", FAILS, results=stepped([11] * SEEDS, [100] * SEEDS))
case("cart-pole few steps", OPEN, results=stepped([1, 10, 19], [100] * 3))


# Several shares
def by_k(family, *shares):
    return {f"{family}/k-{level}": share for level, share in zip(LEVELS, shares, strict=True) if share is not None}


for name, family in (("diminishing returns", SMALL), ("diminishing returns on 13k", LARGE)):
    case(name, HOLDS, shares=by_k(family, 0.25, None, 0.5, None, 0.7499))
    case(name, FAILS, shares=by_k(family, 0.25, None, 0.5, None, 0.75))
    case(name, OPEN, shares=by_k(family, wide(0.25), None, 0.5, None, 0.75))
for name, family in (("5 or 10 % like all", SMALL), ("5 or 10 % like all on 13k", LARGE)):
    case(name, HOLDS, shares=by_k(family, None, None, 0.05, 0.05, 0.0))
    case(name, HOLDS, shares=by_k(family, None, None, 0.0, 0.0, 0.05))
    case(name, FAILS, shares=by_k(family, None, None, 0.05, 0.0501, 0.0))
    case(name, FAILS, shares=by_k(family, None, None, 0.0501, 0.05, 0.0))
    case(name, FAILS, shares=by_k(family, None, None, 0.0, 0.05, 0.0501))
    case(name, FAILS, shares=by_k(family, None, None, 0.05, 0.0, 0.0501))
    case(name, OPEN, shares=by_k(family, None, None, wide(0.5), 0.5, 0.5))
    case(name, OPEN, shares=by_k(family, None, None, 0.5, wide(0.5), 0.5))
case("progression with k", HOLDS, shares=by_k(SMALL, 0.1, 0.2, 0.3, 0.4, 0.5))
for place in range(1, len(LEVELS)):
    falling = [0.1, 0.2, 0.3, 0.4, 0.5]
    falling[place] = falling[place - 1]
    case("progression with k", FAILS, shares=by_k(SMALL, *falling))
case("progression with k", OPEN, shares=by_k(SMALL, 0.1, wide(0.2), 0.3, 0.4, 0.5))


# Curves
def deviations(first, second):
    keys = [f"recommender-49/dim-{dim}-k-1" for dim in (20, 200)]
    return {key: restless(*each) for key, each in zip(keys, (first, second), strict=True)}


case("compact vectors", HOLDS, results=deviations([0.1] * SEEDS, [0.2] * SEEDS))
case("compact vectors", FAILS, results=deviations([0.2] * SEEDS, [0.1] * SEEDS))
case("compact vectors", FAILS, results=deviations([0.1] * SEEDS, [0.1] * SEEDS))
case("compact vectors", OPEN, results=deviations([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]))
stable = {"puddle-world-20/k-1": 0.8}
case("n = 1 is unstable", HOLDS, results={"puddle-world-1/k-1": restless(*[0.1] * SEEDS)}, shares=stable)
case("n = 1 is unstable", FAILS, results={"puddle-world-1/k-1": restless(*[0.0999] * SEEDS)}, shares=stable)
case("n = 1 is unstable", OPEN, results={"puddle-world-1/k-1": restless(0.0, 0.1, 0.2)}, shares=stable)
plans = {f"puddle-world-{n}/k-1": 0.5 for n in PLANS}
case("longer plans are better", HOLDS, shares={**plans, "puddle-world-20/k-1": 0.6})
case("longer plans are better", FAILS, shares=plans)
case("longer plans are better", OPEN, shares={**plans, "puddle-world-20/k-1": wide(0.5)})


def learning(*reached, steps=60):
    """Runs that are good from some evaluation on, counted from one; None never is."""
    runs = []
    for first in reached:
        shares = [0.8 if first is not None and place >= first else 0.7999 for place in range(1, 7)]
        curve = {"share": shares, "steps": [10.0 * place for place in range(1, 7)], "seconds": list(range(1, 7))}
        runs.append({**learned(0.0, steps), "curve": curve})
    return runs


def plans_learn(one, twenty):
    return {"puddle-world-1/k-1": learning(*one), "puddle-world-20/k-1": learning(*twenty)}


case("longer plans are faster", HOLDS, results=plans_learn([2] * SEEDS, [1] * SEEDS))
case("longer plans are faster", HOLDS, results=plans_learn([2] * SEEDS, [2] * SEEDS))
case("longer plans are faster", FAILS, results=plans_learn([1] * SEEDS, [2] * SEEDS))
case("longer plans are faster", HOLDS, results=plans_learn([None] * SEEDS, [4] * SEEDS))
case("longer plans are faster", OPEN, results=plans_learn([2] * SEEDS, [1] * (SEEDS - 1) + [None]))
case("longer plans are faster", OPEN, results=plans_learn([1, 2, 4], [2, 2, 2]))


# What has to be so before a criterion decides
def few_updates(key, family, updates=49, shares=(0.25, 0.4, 0.5, 0.5, 0.5)):
    """Results in which one variant made so many updates, and all others 100."""
    return {"shares": by_k(family, *shares), "results": {key: [{"steps": updates}] * SEEDS}}


for name, family in (
    *(("diminishing returns", SMALL), ("diminishing returns on 13k", LARGE), ("5 or 10 % like all", SMALL)),
    ("5 or 10 % like all on 13k", LARGE),
):
    case(name, OPEN, **few_updates(f"{family}/k-100-percent", family))
    case(name, HOLDS, **few_updates(f"{family}/k-100-percent", family, 50))
    case(name, OPEN, shares=by_k(family, 0.25, 0.4, 0.5, 0.5, 0.5), fixed=0.51)
rising, falling = (0.1, 0.2, 0.3, 0.4, 0.5), (0.1, 0.2, 0.3, 0.4, 0.3)
case("progression with k", OPEN, **few_updates(f"{SMALL}/k-100-percent", SMALL, 49, falling))
case("progression with k", HOLDS, **few_updates(f"{SMALL}/k-100-percent", SMALL, 50, rising))
case("progression with k", FAILS, **few_updates(f"{SMALL}/k-100-percent", SMALL, 50, falling))
case("5 or 10 % like all", OPEN, **few_updates(f"{SMALL}/k-10-percent", SMALL, 201))
for name in ("k = 1 fails on 13k", "5 % beats k = 1 on 13k"):
    case(name, OPEN, shares={f"{LARGE}/k-1": 0.1, f"{LARGE}/k-5-percent": 0.35}, fixed=0.4)
case("k = 1 fails on 13k", FAILS, shares={f"{LARGE}/k-1": 0.3, f"{LARGE}/k-5-percent": 0.35}, fixed=0.4)
case("5 % beats k = 1 on 13k", FAILS, shares={f"{LARGE}/k-1": 0.39, f"{LARGE}/k-5-percent": 0.35}, fixed=0.4)
for name, family in (("uniform exploration on 835", SMALL), ("uniform exploration", LARGE)):
    case(name, OPEN, shares={f"{family}/k-5-percent-uniform": 0.1, f"{family}/k-5-percent": 0.2}, fixed=0.4)
collapsed = [{**each, "curve": {**each["curve"], "distinct": [9, 9, 1]}} for each in restless(*[0.0] * SEEDS)]
for stable_one in (20, 200):
    one_item = {f"recommender-49/dim-{stable_one}-k-1": collapsed}
    case("compact vectors", OPEN, results={**deviations([0.1] * SEEDS, [0.1] * SEEDS), **one_item})
unstable = {"puddle-world-1/k-1": restless(*[0.1] * SEEDS)}
case("n = 1 is unstable", OPEN, results=unstable, shares={"puddle-world-20/k-1": 0.7999})
for name, key, share in (
    ("cart-pole slow", "cart-pole/k-1-slow", 0.8),
    ("cart-pole medium", "cart-pole/k-1-medium", 0.7),
    ("cart-pole fast", "cart-pole/k-1-fast", 0.7),
    ("the lossiest lookup", "puddle-world-20/k-1-fast", 0.7),
):
    off = [{"lookup": [{"promise": 0.9, "recall": 0.95}]}] * SEEDS
    case(name, OPEN, shares={key: share}, results={key: off})
for name, lookups in (("recall matters", ("slow", "fast")), ("fast like medium", ("fast", "medium"))):
    keys = [f"{LARGE}/k-5-percent-{lookup}" for lookup in lookups]
    for key in keys:
        case(name, OPEN, shares={keys[0]: 0.52, keys[1]: 0.5}, results={key: [{"lookup": []}] * SEEDS})
    case(name, OPEN, shares={keys[0]: 0.52, keys[1]: 0.5}, fixed=0.53)
    case(name, HOLDS, shares={keys[0]: 0.52, keys[1]: 0.5}, fixed=0.49)
case("fast like medium", OPEN, shares={keys[0]: 0.52, keys[1]: 0.5}, fixed=0.51)
case("fast like medium", OPEN, shares={keys[0]: 0.5, keys[1]: 0.52}, fixed=0.51)


# Speeds
def cells(task, **rates):
    """Speeds by lookup at a k: `k1`, `k1_fast`, `k1_scan`."""
    keys = {}
    for name, rate in rates.items():
        k, _, lookup = name[1:].partition("_")
        keys[f"speed-{task}/k-{k}" + (f"-{lookup}" if lookup else "")] = rate
    return keys


for few in (656, 1_313):
    for rate, expected in ((10**0.5, HOLDS), (3.16, FAILS), (10**1.5, HOLDS), (31.7, FAILS)):
        rates = cells("recommender", k13138=1.0, **{"k656": 10.0, "k1313": 10.0, f"k{few}": rate})
        case("an order of magnitude", expected, rates=rates)
within("15 times slower", lambda rate: cells("recommender", k131=rate, k13138=1.0), 10.0, 20.0, "rates")
for lookup in ("slow", "medium", "fast"):
    within(
        "lookup at k = 5,000",
        lambda rate, lookup=lookup: cells(
            "cart-pole",
            k5000_scan=1.0,
            **{"k5000_slow": 1.0, "k5000_medium": 1.0, "k5000_fast": 1.0} | {f"k5000_{lookup}": rate},
        ),
        0.8,
        1.25,
        "rates",
    )
for slow, medium, fast, expected in (
    (0.79, 0.79, 1.26, HOLDS),
    (0.8, 0.79, 1.26, FAILS),
    (0.79, 0.8, 1.26, FAILS),
    (0.79, 0.79, 1.25, FAILS),
):
    rates = cells("cart-pole", k1_scan=1.0, k1_slow=slow, k1_medium=medium, k1_fast=fast)
    case("only fast helps", expected, rates=rates)
for medium, fast, expected in ((1.26, 1.26, HOLDS), (1.25, 1.26, FAILS), (1.26, 1.25, FAILS)):
    rates = cells("puddle-world", k1_scan=1.0, k1_medium=medium, k1_fast=fast)
    case("lookup in more dimensions", expected, rates=rates)
seconds_k = {task: {speed_key(task, k, "exact"): 1.0 for k in table.ks[:2]} for task, table in SPEED_TABLES.items()}
ones = {speed_key(task, 1, "exact"): 1.01 for task in SPEED_TABLES}
case("k = 1 is the fastest", HOLDS, rates=merge(*seconds_k.values(), ones))
for task in SPEED_TABLES:
    same = {speed_key(task, 1, "exact"): 1.0}
    case("k = 1 is the fastest", FAILS, rates=merge(*seconds_k.values(), ones, same))
for spent, expected in (((9.0, 1.0), HOLDS), ((8.99, 1.01), FAILS)):
    time = dict(zip(("rerank", "lookup"), spent, strict=True))
    case("all time into Q", expected, results={"speed-cart-pole/k-5000": [{"time": {**time, "update": 99.0}}]})
for ten, all_, expected in ((1.5, 1.0, HOLDS), (2.5, 1.0, HOLDS), (1.49, 1.0, FAILS), (2.51, 1.0, FAILS)):
    given = {f"{SMALL}/k-10-percent": ten, f"{SMALL}/k-100-percent": all_}
    case("all of 835 cost twice", expected, shares=dict.fromkeys(given, 0.5), rates=given)
some = [{"steps_per_second": rate} for rate in (1.0, 2.0, 3.0)]
one = [{"steps_per_second": 1.0}] * 3
case("all of 835 cost twice", OPEN, results={f"{SMALL}/k-10-percent": some, f"{SMALL}/k-100-percent": one})
for rate, expected in ((0.1, HOLDS), (0.1001, FAILS)):
    case(
        "all plans too slow",
        expected,
        rates={"speed-puddle-world/k-1048576": rate},
        results={"puddle-world-20/k-1": [{"seconds": 100.0}]},
    )
for ratio, share, expected in (
    (1250.0, 0.95, HOLDS),
    (1249.9, 0.95, FAILS),
    (1250.0, 0.9499, FAILS),
    (1250.0, wide(0.95), OPEN),
    (1249.9, wide(0.95), FAILS),
):
    rates = cells("puddle-world", k1=ratio, k1048576=1.0)
    case("1,250 times", expected, rates=rates, shares={"puddle-world-20/k-1": share})
for exponent, expected in ((0.81, HOLDS), (0.79, FAILS), (1.19, HOLDS), (1.21, FAILS)):
    seconds = {k: 0.01 + 1e-5 * (k - 1 and k) ** exponent for k in (1, 131, 656, 1_313)} | {13_138: 1e9}
    case("linear in k", expected, rates={speed_key("recommender", k, "exact"): 1 / s for k, s in seconds.items()})
case("linear in k", OPEN, rates=cells("recommender", k1=1.0, k131=1.0, k656=0.5, k1313=0.25))


# The lemma
def drawn(apart):
    rows = [{"simulated": away, "formula": 0.0, "standard_error": 2.0} for away in (0.0, 2 * apart, 0.0)]
    return {"lemma/monte-carlo": [{"rows": rows}]}


for apart, expected in ((4.5, HOLDS), (-4.5, HOLDS), (4.51, FAILS), (-4.51, FAILS)):
    case("lemma", expected, results=drawn(apart))
for errors, expected in (
    ([0.1] * SEEDS, HOLDS),
    ([0.1001] * SEEDS, FAILS),
    ([0.0, 0.1, 0.2], OPEN),
    ([0.0, 0.0, None], OPEN),
):
    studies = [{"lemma": {"relative_error": error}} for error in errors]
    case("lemma on critics", expected, results={f"{SMALL}/k-5-percent": studies})

case("best score 150", FAILS)


@pytest.mark.parametrize(("name", "expected", "given"), CASES)
def test_a_claim_has_the_verdict_that_its_criterion_gives(name, expected, given, tmp_path):
    found = find(name, Given(tmp_path, **given))
    assert found.verdict == expected, found


def test_every_claim_has_a_case_that_holds_one_that_does_not_and_one_undecided():
    seen = {}
    for each in CASES:
        name, expected, _ = each.values
        seen.setdefault(name, set()).add(expected)
    alone = {"best score 150"}  # of one map; the other verdict is below
    cells_only = {name for name, verdicts in seen.items() if OPEN not in verdicts}
    assert set(seen) == {claim.name for claim in CLAIMS + OURS}
    assert {name for name, verdicts in seen.items() if not {HOLDS, FAILS} <= verdicts} == alone
    # What is one measurement, not seeds, is always decided.
    assert cells_only == alone | {
        *("lemma", "an order of magnitude", "15 times slower", "lookup at k = 5,000", "only fast helps"),
        *("lookup in more dimensions", "k = 1 is the fastest", "all time into Q", "all plans too slow"),
    }


def test_the_best_score_holds_on_a_map_with_the_moves_that_the_paper_counts(tmp_path, monkeypatch):
    assert find("best score 150", Given(tmp_path)).measured == "153"
    rows = [["."] * 51 for _ in range(52)]  # 101 moves, of which the last earns 250
    rows[0][0], rows[-1][-1] = "S", "G"
    monkeypatch.setattr(checks, "EMPTY", "\n".join(map("".join, rows)))
    assert find("best score 150", Given(tmp_path)).verdict == HOLDS


def test_what_was_measured_is_said(tmp_path):
    shares = {f"puddle-world-{n}/k-1": n / 100 for n in PLANS}
    found = find("longer plans are better", Given(tmp_path, shares))
    assert found.measured == "+19.0 points [+19.0 points, +19.0 points]"
    assert found.note == "n = 1 1.0 %, n = 3 3.0 %, n = 5 5.0 %, n = 10 10.0 %, n = 20 20.0 %"
    bent = {1: 0.01, 131: 0.02, 656: 0.06, 1_313: 0.21}
    rates = {speed_key("recommender", k, "exact"): 1 / seconds for k, seconds in bent.items()}
    assert find("linear in k", Given(tmp_path, rates=rates)).measured == "exponent 1.25"
    found = find("cart-pole k = 0.5 %", Given(tmp_path, {"cart-pole/k-5000": 0.1, "cart-pole/k-1": 0.8}))
    assert (found.measured, found.note) == ("12.5 % [12.5 %, 12.5 %]", "k = 1 made 1 times the steps")
    studies = [{"lemma": {"relative_error": error}} for error in (0.0, 0.0, None)]
    found = find("lemma on critics", Given(tmp_path, results={f"{SMALL}/k-5-percent": studies}))
    assert found.measured == "candidates gain nothing"
    assert find("lemma", Given(tmp_path, results=drawn(-1.5))).measured == (
        "at most 1.5 standard errors apart, 3 settings"
    )


def test_a_note_says_why(tmp_path):
    def note(name, **given):
        return find(name, Given(tmp_path, **given)).note

    above = "both are better: in the same time all actions get fewer updates"
    assert note("5 or 10 % like all", shares=by_k(SMALL, None, None, 0.06, 0.06, 0.0)) == above
    assert note("5 or 10 % like all", shares=by_k(SMALL, None, None, 0.06, 0.05, 0.0)) == ""
    rates = cells("cart-pole", k1_scan=1.0, k1_slow=1.26, k1_medium=1.26, k1_fast=1.26)
    assert note("only fast helps", rates=rates) == "ours help at every setting"
    assert note("only fast helps", rates={**rates, "speed-cart-pole/k-1-slow": 1.25}) == ""
    assert note("k = 1 fails on 13k", shares={f"{LARGE}/k-1": 0.3, f"{LARGE}/k-5-percent": 0.9}, fixed=0.4) == (
        "random 10.0 %, best fixed item 40.0 %; our agent learns at k = 1"
    )
    assert note("k = 1 fails on 13k", shares={f"{LARGE}/k-1": 0.2, f"{LARGE}/k-5-percent": 0.9}, fixed=0.4) == (
        "random 10.0 %, best fixed item 40.0 %"
    )
    assert note("longer plans are faster", results=plans_learn([None, 2, 2], [1, 1, 1])) == (
        "1 of 3 seeds of n = 1 never did, and count with all their steps"
    )
    assert note("longer plans are faster", results=plans_learn([2, 2, 2], [1, 1, 1])) == ""
    rates = cells("puddle-world", k1=1250.0, k1048576=1.0)
    assert note("1,250 times", rates=rates, shares={"puddle-world-20/k-1": 0.95}) == ""
    rates = cells("puddle-world", k1=1251.0, k1048576=1.0)
    assert note("1,250 times", rates=rates, shares={"puddle-world-20/k-1": 0.95}) == "more than the paper's"


def test_a_missing_seed_leaves_everything_open(tmp_path):
    shares = {f"{LARGE}/k-5-percent": [0.6] * 3, f"{LARGE}/k-1": [0.4] * 4}
    found = find("5 % beats k = 1 on 13k", Given(tmp_path, shares).plan(4))
    assert (found.verdict, found.note) == (OPEN, f"seeds missing: 1 of {LARGE}/k-5-percent")
    assert find("5 % beats k = 1 on 13k", Given(tmp_path)).verdict == "missing"
