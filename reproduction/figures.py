"""The figures, drawn from result files only, as SVG that takes on the colours of the page it stands in."""

from collections.abc import Callable
from functools import partial
from io import StringIO
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from reproduction.evidence import Evidence, MissingError
from reproduction.items import Figure, LemmaPlot, Panel
from reproduction.statistics import join_curves

INK = "#010203"  # stands for the colour of the page's text
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # told apart by everyone
BASELINES = {"best fixed item": "--", "random": ":", "best fixed plan": "--"}
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "legend.frameon": False,
}


def draw(item: Figure | LemmaPlot, evidence: Evidence) -> str:
    """An item as SVG whose ink is INK."""
    panels: list[Callable[[Axes, Evidence], None]]
    if isinstance(item, Figure):
        panels = [partial(_curves, panel) for panel in item.panels]
    else:
        panels = [_formula, *(partial(_study, label, key) for label, key in item.studies.items())]
    style: Any = {**STYLE, "svg.hashsalt": item.name}
    with plt.rc_context(style):
        columns = min(2, len(panels))
        rows = -(-len(panels) // columns)
        size = (4.6 * columns + (0.8 if columns == 1 else 0), 3.4 * rows)
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        for draw_panel, place in zip(panels, axes.flat, strict=False):
            draw_panel(place, evidence)
        for place in axes.flat[len(panels) :]:
            place.remove()
        file = StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    return file.getvalue()


def on_paper(svg: str) -> str:
    """For a file of its own: black on white."""
    start = svg.index(">", svg.index("<svg")) + 1
    return (svg[:start] + '<rect width="100%" height="100%" fill="white"/>' + svg[start:]).replace(INK, "#111111")


def in_page(svg: str) -> str:
    """For a page: the ink is the page's."""
    return svg[svg.index("<svg") :].replace(INK, "currentColor")


def _curves(panel: Panel, axes: Axes, evidence: Evidence) -> None:
    known: list[dict[str, float]] = []
    for (label, key), colour in zip(panel.curves.items(), COLOURS, strict=False):
        try:
            found = evidence.results(key)
        except MissingError:
            axes.plot([], [], color=colour, linestyle=":", label=f"{label}: missing")
            continue
        curve = join_curves([(result["curve"][panel.x], result["curve"]["share"]) for result in found])
        axes.plot(curve.x, 100 * curve.y, color=colour, linewidth=1.8, label=label)
        axes.fill_between(curve.x, 100 * curve.low, 100 * curve.high, color=colour, alpha=0.2, linewidth=0)
        if len(found) > 1:  # where a seed ends that went further than the others, nothing is drawn
            axes.plot(curve.x[-1:], 100 * curve.y[-1:], color=colour, marker="o", markersize=4)
        baselines = found[0]["baselines"]
        best = next(iter(baselines.values()))
        known.append({name: value / best for name, value in baselines.items() if name in BASELINES})
    for name, share in (known[0] if known else {}).items():
        if share > -0.5 and all(other.get(name) == share for other in known):  # else it is that of one curve only
            axes.axhline(100 * share, color=INK, linestyle=BASELINES[name], linewidth=1, label=name)
    axes.axhline(100, color=INK, linewidth=1)
    bottom = min(0.0, axes.get_ylim()[0]) if axes.get_ylim()[0] > -60 else -60
    axes.set_ylim(bottom, 105)
    axes.set(xlabel={"steps": "steps", "seconds": "seconds of training"}[panel.x], title=panel.title)
    axes.set_ylabel("return, % of the best known")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(_short)
    axes.legend(fontsize=8, loc="best")


def _short(value: float, _: float) -> str:
    """Tick labels that fit on a phone."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1e4 else f"{value:g}"


def _formula(axes: Axes, evidence: Evidence) -> None:
    axes.set(xlabel="k", ylabel="expected best, in units of b", title="formula and random draws", xscale="log")
    try:
        rows = evidence.results("lemma/monte-carlo")[0]["rows"]
    except MissingError:
        _say_missing(axes)
        return
    settings = sorted({(row["p"], row["c"]) for row in rows})
    for (p, c), colour in zip(settings, COLOURS, strict=False):
        line = sorted((row for row in rows if (row["p"], row["c"]) == (p, c)), key=lambda row: row["k"])
        axes.plot([row["k"] for row in line], [row["formula"] for row in line], color=colour, label=f"p = {p}, c = {c}")
        axes.plot([row["k"] for row in line], [row["simulated"] for row in line], "o", color=colour, markersize=4)
    axes.legend(fontsize=8)


def _study(label: str, key: str, axes: Axes, evidence: Evidence) -> None:
    axes.set(xlabel="k", ylabel="best of k by the critic", title=label, xscale="log")
    try:
        study = evidence.studies(key)[0]
    except MissingError:
        _say_missing(axes)
        return
    axes.plot(study["k"], study["measured"], "o-", color=COLOURS[0], markersize=4, label="the k nearest, measured")
    axes.plot(study["k"], study["predicted"], color=COLOURS[1], label=f"Lemma 1, p = {study['p']:.2f}")
    axes.plot(study["k"], study["shuffled"], ":", color=COLOURS[2], label="k at random")
    axes.legend(fontsize=8)


def _say_missing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "missing", transform=axes.transAxes, ha="center")
