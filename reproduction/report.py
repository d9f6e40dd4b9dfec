"""report.html and report.md: every figure and table beside its claims, from result files only."""

from collections import Counter
from html import escape
from pathlib import Path

from reproduction import figures
from reproduction.claim import Claim
from reproduction.claims import CLAIMS, OURS
from reproduction.evidence import FAILS, HOLDS, MISSING, OPEN, Evidence, Finding
from reproduction.items import ITEMS, Figure, Item, SpeedCells
from reproduction.plan import Variant
from reproduction.results import Results
from reproduction.summary import Part, summarize
from reproduction.tables import (
    Rows,
    claim_rows,
    curve_rows,
    departure_rows,
    index_rows,
    made_rows,
    markdown,
    ratio_rows,
    speed_rows,
)

TITLE = "Deep Reinforcement Learning in Large Discrete Action Spaces, reproduced"
LEAD = (
    "Every table, figure and checkable sentence of the results of Dulac-Arnold et al. (2015), from runs of this "
    "library. Curves are interquartile means over seeds with 95 % bootstrap intervals; numbers are means over seeds of "
    "the last fifth of a run, with 95 % intervals by Student's t. Returns are shares of the exact optimum, on "
    "cart-pole of a reference controller's return. Runs of a figure had the same seconds of training on one "
    "core, unless its caption says otherwise; the tuning of indexes is not counted. "
    "The recommender's data are not the paper's, which are private, but the Complete Journey's."
)
VERDICTS = (HOLDS, FAILS, OPEN, MISSING)
RATIOS = (
    "As shares of the first row. They depend less on the machine than the speeds do, but they do: memory, caches and "
    "threads change a lookup and a network differently."
)
DEPARTURES = "Settings that are not Algorithm 2 as written, read from the result files:"
INDEXES = "What was looked up with:"
MADE = "How the results were made"


def write_report(results: Results, variants: dict[str, Variant]) -> tuple[Path, Path]:
    """Write report.html, report.md and figures/ from what results there are."""
    evidence = Evidence(results, variants)
    drawings = {name: figures.draw(item, evidence) for name, item in ITEMS.items() if not isinstance(item, SpeedCells)}
    folder = results.folder / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawings.items():
        (folder / f"{name}.svg").write_text(figures.on_paper(drawing))
    page, document = results.folder / "report.html", results.folder / "report.md"
    page.write_text(_page(evidence, drawings, results, variants))
    document.write_text(_document(evidence, results, variants))
    return page, document


def _state(results: Results, variants: dict[str, Variant]) -> str:
    done = sum(len(results.of(variant)) for variant in variants.values())
    everything = sum(variant.seeds for variant in variants.values())
    trained = sum(result.get("seconds", 0.0) for variant in variants.values() for result in results.of(variant))
    return f"{done} of {everything} runs, {trained / 3600:.1f} hours of training."


def _tally(claims: tuple[Claim, ...], evidence: Evidence) -> str:
    counts = Counter(claim.find(evidence).verdict for claim in claims)
    return ", ".join(f"{verdict}: {counts[verdict]}" for verdict in VERDICTS if counts[verdict])


def _tables(item: Item, evidence: Evidence) -> list[tuple[str, Rows]]:
    if isinstance(item, SpeedCells):
        return [
            ("", speed_rows(item, evidence)),
            (RATIOS, ratio_rows(item, evidence)),
            (INDEXES, index_rows(item, evidence)),
        ]
    if isinstance(item, Figure):
        return [("", curve_rows(item, evidence)), (DEPARTURES, departure_rows(item, evidence))]
    return []


def _document(evidence: Evidence, results: Results, variants: dict[str, Variant]) -> str:
    parts = [f"# {TITLE}"]
    for heading, lead, lines in summarize(CLAIMS, evidence, variants):
        parts += [f"## {heading}", lead, "\n".join(f"- {line}" for line in lines) or "None."]
    parts += ["## What was done", LEAD, _state(results, variants)]
    parts += [f"## What the paper says: {_tally(CLAIMS, evidence)}", markdown(claim_rows(CLAIMS, evidence))]
    parts += [f"## What we set out to reach: {_tally(OURS, evidence)}", markdown(claim_rows(OURS, evidence))]
    for name, item in ITEMS.items():
        parts += [f"## {_heading(item)}", item.caption]
        if not isinstance(item, SpeedCells):
            parts.append(f"![{item.title}](figures/{name}.svg)")
        for lead, rows in _tables(item, evidence):
            parts += [lead, markdown(rows)]
    parts += [f"## {MADE}", markdown(made_rows(results, variants))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heading(item: Item) -> str:
    name = item.name.replace("-", " ").capitalize()
    return item.title if item.name in ("lemma", "exploration") else f"{name}: {item.title}"


def _page(evidence: Evidence, drawings: dict[str, str], results: Results, variants: dict[str, Variant]) -> str:
    style = Path(__file__).with_name("report.css").read_text()
    sections = "\n".join(_section(item, evidence, drawings.get(name)) for name, item in ITEMS.items())
    contents = " ".join(f'<a href="#{name}">{name.replace("-", " ")}</a>' for name in ITEMS)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(TITLE)}</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>{escape(TITLE)}</h1>
{_top(summarize(CLAIMS, evidence, variants))}
<h2>What was done</h2>
<p>{escape(LEAD)}</p>
<p class="state">{escape(_state(results, variants))}</p>
<nav>{contents}</nav>
<section id="claims">
<h2>What the paper says: {escape(_tally(CLAIMS, evidence))}</h2>
{_summary(CLAIMS, evidence)}
<h2>What we set out to reach: {escape(_tally(OURS, evidence))}</h2>
{_summary(OURS, evidence)}
</section>
{sections}
<section id="made">
<h2>{MADE}</h2>
{_table(made_rows(results, variants))}
</section>
</main>
</body>
</html>
"""


def _top(parts: list[Part]) -> str:
    """The half page that says what came out."""
    shown = []
    for heading, lead, lines in parts:
        items = "\n".join(f"<li>{escape(line)}</li>" for line in lines) or "<li>None.</li>"
        shown.append(f"<h2>{escape(heading)}</h2>\n<p>{escape(lead)}</p>\n<ul>{items}</ul>")
    return "\n".join(shown)


def _section(item: Item, evidence: Evidence, drawing: str | None) -> str:
    own = tuple(claim for claim in CLAIMS + OURS if claim.item == item.name)
    figure = "" if drawing is None else figures.in_page(drawing)
    caption = f"<figcaption>{escape(item.caption)}</figcaption>"
    tables = "\n".join(
        (f"<p>{escape(lead)}</p>" if lead else "") + _table(rows) for lead, rows in _tables(item, evidence)
    )
    return f"""<section id="{item.name}">
<h2>{escape(_heading(item))}</h2>
<figure>
{figure}
{caption}
</figure>
{tables}
{_claims(own, evidence)}
</section>"""


def _summary(claims: tuple[Claim, ...], evidence: Evidence) -> str:
    """One line for each claim, which leads to its figure or table."""
    lines = []
    for claim in claims:
        verdict = claim.find(evidence).verdict
        lines.append(
            f'<li class="{verdict.replace(" ", "-")}"><span class="verdict">{verdict}</span> '
            f'<a href="#{claim.item}">{escape(claim.text)}</a></li>'
        )
    return '<ul class="summary">' + "\n".join(lines) + "</ul>"


def _claims(claims: tuple[Claim, ...], evidence: Evidence) -> str:
    return "\n".join(_claim(claim, claim.find(evidence)) for claim in claims)


def _claim(claim: Claim, found: Finding) -> str:
    note = f" {escape(found.note[0].upper() + found.note[1:])}." if found.note else ""
    return f"""<div class="claim {found.verdict.replace(" ", "-")}">
<span class="verdict">{escape(found.verdict)}</span>
<p><b>{escape(claim.text)}</b> {escape(found.measured)}.{note}
<small>Holds if: {escape(claim.criterion)}.</small></p>
</div>"""


def _table(rows: Rows) -> str:
    heading, *others = rows
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in others)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    return f'<td class="{MISSING}">{escape(text)}</td>' if text.startswith(MISSING) else f"<td>{escape(text)}</td>"
