"""The tables as rows of text: what the page and the document both show."""

from statistics import fmean

from benchmarks.speed.paper import STEPS_PER_SECOND
from reproduction.claim import Claim
from reproduction.evidence import MISSING, Evidence, MissingError, percent, text
from reproduction.items import Figure, SpeedCells
from reproduction.plan import SPEED_TABLES, speed_key
from reproduction.statistics import estimate

Rows = list[list[str]]


def speed_rows(item: SpeedCells, evidence: Evidence) -> Rows:
    """Ours beside the paper's, in steps per second; the first row is the heading."""
    table = SPEED_TABLES[item.task]
    scans = any(item.scan_key(k) for k in table.ks)
    rows: Rows = [["k", *table.lookups, *(["a scan of all vectors"] if scans else [])]]
    for k in table.ks:
        ours = [_rate(evidence, speed_key(item.task, k, lookup)) for lookup in table.lookups]
        theirs = STEPS_PER_SECOND[item.task][k]
        cells = [f"{rate} (paper: {theirs[how]:g})" for rate, how in zip(ours, table.lookups, strict=True)]
        scan = item.scan_key(k)
        rows.append([f"{k:,}", *cells, *([_rate(evidence, scan) if scan else "-"] if scans else [])])
    return rows


def ratio_rows(item: SpeedCells, evidence: Evidence) -> Rows:
    """Each row's speed as a share of the first row's, ours beside the paper's: hardware drops out."""
    table = SPEED_TABLES[item.task]
    first = table.ks[0]
    rows: Rows = [["k", *table.lookups]]
    for k in table.ks[1:]:
        cells = []
        for how in table.lookups:
            paper = STEPS_PER_SECOND[item.task][k][how] / STEPS_PER_SECOND[item.task][first][how]
            try:
                ours = (
                    evidence.rates(speed_key(item.task, k, how))[0]
                    / evidence.rates(speed_key(item.task, first, how))[0]
                )
                cells.append(f"{ours:.2g} (paper: {paper:.2g})")
            except MissingError:
                cells.append(f"{MISSING} (paper: {paper:.2g})")
        rows.append([f"{k:,}", *cells])
    return rows


def _rate(evidence: Evidence, key: str) -> str:
    try:
        rate = evidence.rates(key)[0]
    except MissingError:
        return MISSING
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def curve_rows(item: Figure, evidence: Evidence) -> Rows:
    """What each curve of a figure came to."""
    headings = ["curve", "share of the best known, at the end", "each seed", "best checkpoint"]
    rows: Rows = [[*headings, "steps", "seconds", "tuning", "steps per second"]]
    for panel in item.panels:
        if panel.x == "seconds" and len(item.panels) > 1:
            continue  # the same runs again
        for label, key in panel.curves.items():
            name = f"{panel.title}, {label}" if panel.title else label
            try:
                rows.append([name, *_came_to(evidence, key)])
            except MissingError:
                rows.append([name, *[MISSING] * 7])
    return rows


def _came_to(evidence: Evidence, key: str) -> list[str]:
    found = evidence.results(key)
    names = ("steps", "seconds", "tuning_seconds", "steps_per_second")
    means = (fmean(result.get(name, 0.0) for result in found) for name in names)
    shares = evidence.shares(key)
    seeds = ", ".join([*map(percent, shares), *[MISSING] * evidence.lacking(key)])
    best = percent(fmean(evidence.best(key)))
    return [text(estimate(shares), percent), seeds, best, *(f"{mean:,.0f}" for mean in means)]


def claim_rows(claims: tuple[Claim, ...], evidence: Evidence) -> Rows:
    """Every claim with what was measured and its verdict."""
    rows: Rows = [["claim", "holds if", "measured [95 %]", "verdict", "note"]]
    for claim in claims:
        found = claim.find(evidence)
        rows.append([claim.text, claim.criterion, found.measured, found.verdict, found.note])
    return rows


def markdown(rows: Rows) -> str:
    """A table of Markdown."""
    heading, *others = rows
    lines = [heading, ["---"] * len(heading), *others]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
