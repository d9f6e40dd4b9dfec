"""What has to be so before a criterion decides: runs that learned, equal work, the recall that a sentence is about.

Without it the finding is not decided, and says why: a policy that gives everyone one item is very stable, and equal to
any other such.
"""

from collections.abc import Callable
from dataclasses import replace

from reproduction.checks import Test
from reproduction.evidence import FAILS, HOLDS, OPEN, Evidence, Finding, judge, percent
from reproduction.statistics import estimate

Guard = Callable[[Evidence], str]
"""Says what is not so; nothing if all is well."""

EQUAL_WORK = 0.5  # of the other's updates, at least
RECALL_WITHIN = 0.02
FIXED = "best fixed item"


def only_if(test: Test, *guards: Guard, verdicts: tuple[str, ...] = (HOLDS, FAILS)) -> Test:
    """A test whose verdicts, or some of them, count only if the guards have nothing to say; what they say is noted."""

    def guarded(evidence: Evidence) -> Finding:
        found = test(evidence)
        reasons = [reason for guard in guards if (reason := guard(evidence))]
        if found.verdict not in (*verdicts, OPEN) or not reasons:
            return found
        return replace(found, verdict=OPEN, note="; ".join(filter(None, [*reasons, found.note])))

    return guarded


def learned(key: str) -> Guard:
    """Above the best fixed item, and with more than one action in every seed."""

    def reason(evidence: Evidence) -> str:
        distinct = evidence.distinct(key)
        collapsed = sum(each <= 1 for each in distinct)
        if collapsed:
            return f"{key}: {collapsed} of {len(distinct)} runs ended with one action for every state"
        share, fixed = estimate(evidence.shares(key)), evidence.baseline(key, FIXED)
        if judge(share, least=fixed) == HOLDS:
            return ""
        return f"{key} did not learn: {percent(share.value)}, not surely above the best fixed item, {percent(fixed)}"

    return reason


def good(key: str, least: float) -> Guard:
    """A share that surely reaches a bound."""

    def reason(evidence: Evidence) -> str:
        share = estimate(evidence.shares(key))
        return "" if judge(share, least=least) == HOLDS else f"{key} did not surely reach {percent(least)}"

    return reason


def equal_work(key: str, *others: str) -> Guard:
    """A variant whose fewest updates are at least half of the most that any of the others made."""

    def reason(evidence: Evidence) -> str:
        own = evidence.updates(key)
        most = max(max(evidence.updates(other)) for other in others)
        if min(own) >= EQUAL_WORK * most:
            return ""
        return f"{key} made {min(own):,.0f} to {max(own):,.0f} updates, others up to {most:,.0f}"

    return reason


def recalled(*keys: str) -> Guard:
    """Lookups whose measured recall is the promised one in every run."""

    def reason(evidence: Evidence) -> str:
        wrong = []
        for key in keys:
            recalls = evidence.recalls(key)
            if not recalls:
                wrong.append(f"{key}: no recall was recorded")
            elif any(abs(measured - promised) > RECALL_WITHIN for promised, measured in recalls):
                measured = ", ".join(f"{measured:.3g}" for _, measured in recalls)
                wrong.append(f"{key}: the recall measured is {measured}, not {recalls[0][0]:g}")
        return "; ".join(wrong)

    return reason
