"""The tables as rows of text: what the page and the document both show."""

from collections.abc import Iterable
from statistics import fmean

from benchmarks.speed.paper import STEPS_PER_SECOND
from reproduction.claim import Claim
from reproduction.departures import departures
from reproduction.evidence import MISSING, Evidence, MissingError, percent, text
from reproduction.items import Figure, SpeedCells
from reproduction.plan import SPEED_TABLES, Variant, speed_key
from reproduction.results import Results
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
    """Each row's speed as a share of the first row's, ours beside the paper's."""
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
    rows: Rows = [[*headings, "recall", "updates", "steps", "seconds", "tuning", "steps per second"]]
    for panel in item.panels:
        if panel.x == "seconds" and len(item.panels) > 1:
            continue  # the same runs again
        for label, key in panel.curves.items():
            name = f"{panel.title}, {label}" if panel.title else label
            try:
                rows.append([name, *_came_to(evidence, key)])
            except MissingError:
                rows.append([name, *[MISSING] * (len(rows[0]) - 1)])
    return rows


def _came_to(evidence: Evidence, key: str) -> list[str]:
    found = evidence.results(key)
    names = ("steps", "seconds", "tuning_seconds", "steps_per_second")
    means = (fmean(result.get(name, 0.0) for result in found) for name in names)
    shares = evidence.shares(key)
    seeds = ", ".join([*map(percent, shares), *[MISSING] * evidence.lacking(key)])
    best = percent(fmean(evidence.best(key)))
    updates = f"{min(evidence.updates(key)):,.0f} to {max(evidence.updates(key)):,.0f}"
    shown = [text(estimate(shares), percent), seeds, best, _recall(evidence.recalls(key)), updates]
    return [*shown, *(f"{mean:,.0f}" for mean in means)]


def _recall(found: list[tuple[float, float]]) -> str:
    """What the lookups of the runs had, beside what they promised; without an index they are exact."""
    if not found:
        return "exact"
    measured = ", ".join(f"{measured:.3g}" for _, measured in found)
    return f"{measured} (promised: {found[0][0]:g})"


def departure_rows(item: Figure, evidence: Evidence) -> Rows:
    """Which settings of each curve's runs are not the paper's; curves that share them are one row."""
    curves: dict[str, list[str]] = {}
    for panel in item.panels:
        for label, key in panel.curves.items():
            name = f"{panel.title}, {label}" if panel.title else label
            try:
                found = dict.fromkeys(setting for result in evidence.results(key) for setting in departures(result))
            except MissingError:
                found = {MISSING: None}
            names = curves.setdefault("; ".join(found) or "none", [])
            names += [] if name in names else [name]
    return [["curves", "not the paper's"], *([", ".join(names), what] for what, names in curves.items())]


def index_rows(item: SpeedCells, evidence: Evidence) -> Rows:
    """What each cell with an index looked up with."""
    table = SPEED_TABLES[item.task]
    lookups = [lookup for lookup in table.lookups if lookup != "exact"]
    rows: Rows = [["k", *lookups]]
    for k in table.ks:
        if k < table.n:
            rows.append([f"{k:,}", *(_index(evidence, speed_key(item.task, k, lookup)) for lookup in lookups)])
    return rows


def _index(evidence: Evidence, key: str) -> str:
    try:
        return str(evidence.results(key)[0]["index"])
    except MissingError:
        return MISSING


def made_rows(results: Results, variants: dict[str, Variant]) -> Rows:
    """How each file of results was made, those alike as one row."""
    rows: Rows = [["results", "seeds", "threads", "cores", "commit", "load", "made"]]
    for key, variant in variants.items():
        made = [result["made"] for result in results.of(variant)]
        if made:
            machines = [each["machine"] for each in made]
            loads = ", ".join(f"{each['load'][0]:g}" for each in made if each.get("load")) or "not recorded"
            commits = dict.fromkeys(str(each.get("commit") or "not recorded") for each in made)
            rows.append(
                [
                    *(key, str(len(made)), _different(each["threads"] for each in machines)),
                    *(_different(each["cores"] for each in machines), ", ".join(commits), loads),
                    _different(each["at"][:10] for each in made),
                ]
            )
    return rows


def _different(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


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
