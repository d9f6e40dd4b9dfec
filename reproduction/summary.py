"""The top of the report, for a reader with the paper in hand: from the verdicts as they are."""

from reproduction.claim import Claim
from reproduction.departures import STATED, departures
from reproduction.evidence import FAILS, HOLDS, Evidence, Finding
from reproduction.items import ITEMS, SpeedCells
from reproduction.plan import Variant

Part = tuple[str, str, list[str]]
"""A heading, a line about it, and its sentences."""


def summarize(claims: tuple[Claim, ...], evidence: Evidence, variants: dict[str, Variant]) -> list[Part]:
    """What of the paper is true, what depends on settings that it does not give, and what is wrong."""
    found = [(claim, claim.find(evidence)) for claim in claims]
    return [
        (
            "True",
            "Computed, or speeds of this library on this machine; what an agent learned decides none of these.",
            _lines(found, HOLDS, False),
        ),
        (
            "Depends on settings that the paper does not give",
            f"{as_written(evidence, variants)} With our settings:",
            [
                *_lines(found, HOLDS, True, "holds"),
                *_lines(found, FAILS, True, "does not hold"),
                *_lines([each for each in found if each[0].name not in ARITHMETIC], FAILS, False, SPEEDS),
                *_open(found),
            ],
        ),
        (
            "Wrong",
            "Computed: no setting decides these.",
            _lines([each for each in found if each[0].name in ARITHMETIC], FAILS, False),
        ),
    ]


def as_written(evidence: Evidence, variants: dict[str, Variant]) -> str:
    """How many of the learning runs are the paper's algorithm."""
    keys = [key for key, variant in variants.items() if variant.kind == "learning" and evidence.has(key)]
    runs = [result for key in keys for result in evidence.results(key)]
    exact = sum(not departures(result) for result in runs)
    return f"{exact} of {len(runs)} learning runs are {STATED}."


def is_learned(claim: Claim) -> bool:
    """Whether a claim rests on learning runs, whose settings are partly ours."""
    return claim.item != "lemma" and not isinstance(ITEMS[claim.item], SpeedCells) and claim.name not in COMPUTED


SPEEDS = "does not hold at the speeds of this library on this machine"
ARITHMETIC = ("lemma", "best score 150")
"""Claims that neither learning nor speed decides."""
COMPUTED = ("best score 150", "cart-pole few steps", "all of 835 cost twice", "all plans too slow")
"""Claims of a figure that are about speed or arithmetic."""


def _lines(found: list[tuple[Claim, Finding]], verdict: str, learned: bool, said: str = "") -> list[str]:
    chosen = [(claim, each) for claim, each in found if each.verdict == verdict and is_learned(claim) == learned]
    return [f"{_say(claim, each)}{f' - {said}' if said else ''}" for claim, each in chosen]


def _say(claim: Claim, found: Finding) -> str:
    return f"{claim.text} ({found.measured})"


def _open(found: list[tuple[Claim, Finding]]) -> list[str]:
    """One line for all that is not decided; each has its reason in the table."""
    left = [claim.name for claim, each in found if each.verdict not in (HOLDS, FAILS)]
    return [f"{len(left)} sentences are not decided: {', '.join(left)}"] if left else []
