"""Plots of benchmarks.speed, drawn from the result files only, beside them: `python -m benchmarks.speed.plot`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from benchmarks.speed import results
from benchmarks.speed.agents import PARTS
from benchmarks.speed.paper import STEPS_PER_SECOND
from benchmarks.speed.verdict import LARGE_KS

PANEL_WIDTH, HEIGHT = 4.4, 4.8  # inches, as the plots of lookups
ORDER = ("structured", "exact", "slow", "medium", "fast", "screened", "obvious")
COLOURS = {"lookup": "C0", "rerank": "C1", "gradient": "C2", "other": "C7"}
NAMES = {"rerank": "re-rank"}
WANTED_SHARE = 0.7


def plot_parts(task: str) -> Figure | None:
    """One panel for each k: the parts of a step as stacked bars, the arithmetic bound as a line."""
    rows = [found for k in STEPS_PER_SECOND[task] if (found := results.step_row(task, k)) is not None]
    rows = [row for row in rows if any("seconds" in row["cells"].get(name, {}) for name in ORDER)]
    if not rows:
        return None
    figure, panels = plt.subplots(
        1, len(rows), figsize=(PANEL_WIDTH * max(2.5, 0.8 * len(rows)), HEIGHT), layout="constrained", squeeze=False
    )
    for panel, row in zip(panels[0], rows, strict=True):
        _draw_parts(panel, row)
    panels[0][0].set_ylabel("milliseconds a training step")
    figure.suptitle(f"{task}: where a training step's time goes (batch 64, networks of 400 and 300)")
    handles: dict[str, Artist] = {NAMES.get(name, name): Patch(color=COLOURS[name]) for name in PARTS}
    handles["the arithmetic alone, at the machine's rate"] = Line2D([], [], color="black", linestyle=":")
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _draw_parts(panel: Axes, row: dict[str, Any]) -> None:
    names = [name for name in ORDER if "seconds" in row["cells"].get(name, {})]
    bottom = [0.0] * len(names)
    for part in PARTS:
        heights = [1e3 * row["cells"][name]["parts"][part] for name in names]
        panel.bar(names, heights, bottom=bottom, color=COLOURS[part], width=0.7)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    for place, top in enumerate(bottom):
        panel.text(place, top, f"{top:,.0f}" if top >= 100 else f"{top:.3g}", ha="center", va="bottom", fontsize=8)
    panel.axhline(1e3 * row["cells"][names[0]]["bound_seconds"], color="black", linewidth=0.8, linestyle=":")
    panel.set(title=f"k = {row['k']:,}")
    panel.margins(y=0.1)
    panel.tick_params(axis="x", labelsize=8, rotation=60)
    panel.grid(alpha=0.3, axis="y")
    panel.set_axisbelow(True)


def plot_growth() -> Figure | None:
    """Time and peak memory against k."""
    rows = (results.read("growth") or {}).get("rows", [])
    if len(rows) < 2:
        return None
    figure, (times, memory) = plt.subplots(1, 2, figsize=(2 * PANEL_WIDTH * 1.2, HEIGHT), layout="constrained")
    ks = [row["k"] for row in rows]
    times.plot(ks, [row["seconds"] for row in rows], marker=".", color="C3", label="training step")
    for part in ("rerank", "lookup"):
        parts = [row["parts"][part] for row in rows]
        times.plot(ks, parts, marker=".", color=COLOURS[part], label=f"its {NAMES.get(part, part)}")
    bound = [row["flops"] / row["flops_per_second"] for row in rows]
    times.plot(ks, bound, color="black", linestyle=":", linewidth=0.8, label="the arithmetic alone")
    # The line through the first k whose candidates are most of the step: what all larger ones would cost by that.
    first = next((row for row in rows if row["k"] >= LARGE_KS[0]), rows[-1])
    line = [first["seconds"] * k / first["k"] for k in ks]
    times.plot(ks, line, color="grey", linestyle="--", linewidth=0.8, label=f"linear, from k = {first['k']:,}")
    times.set(title="time", xlabel="k", ylabel="seconds", xscale="log", yscale="log")
    times.set_ylim(bottom=0.3 * min(min(bound), min(row["seconds"] for row in rows)))
    times.legend(frameon=False)
    memory.plot(ks, [row["peak_bytes"] / 1e6 for row in rows], marker=".")
    memory.axhline(2_000, color="black", linestyle=":", linewidth=0.8)
    memory.text(ks[0], 2_000, "2 GB", va="bottom", fontsize=8)
    memory.set(title="peak memory of the whole process", xlabel="k", ylabel="megabytes", xscale="log")
    memory.set_ylim(bottom=0)
    for panel in (times, memory):
        panel.set_xscale("log", base=2)
        panel.grid(alpha=0.3)
    figure.suptitle("Puddle World, 2^20 plans: a training step against k (batch 64, networks of 400 and 300)")
    return figure


def plot_rates() -> Figure | None:
    """Re-ranking as a share of the machine's rate of matrix products."""
    rows = (results.read("rerank") or {}).get("rows", [])
    if not rows:
        return None
    figure, panel = plt.subplots(figsize=(PANEL_WIDTH * 1.5, HEIGHT), layout="constrained")
    labels = [f"{name}\n{row['dim']}-d" for row in rows for name in row["cells"]]
    shares = [found["share"] for row in rows for found in row["cells"].values()]
    colours = [f"C{number}" for row in rows for number, _ in enumerate(row["cells"])]
    bars = panel.bar(labels, shares, color=colours, width=0.7)
    panel.bar_label(bars, [f"{share:.0%}" for share in shares])
    panel.axhline(WANTED_SHARE, color="black", linewidth=0.8, linestyle=":")
    panel.axhline(1, color="black", linewidth=0.8)
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    panel.text(len(labels) - 0.55, WANTED_SHARE, "wanted", ha="right", va="bottom", fontsize=8)
    panel.set(title="re-ranking 64 x 656 candidates", ylabel="share of the machine's matrix-product rate")
    panel.grid(alpha=0.3, axis="y")
    panel.set_axisbelow(True)
    return figure


def draw_all() -> list[Path]:
    """Every plot that there are results for."""
    figures = {f"{task}-parts": plot_parts(task) for task in STEPS_PER_SECOND}
    figures |= {"growth": plot_growth(), "rates": plot_rates()}
    paths = []
    for name, figure in figures.items():
        if figure is not None:
            paths.append(path := results.RESULTS / f"{name}.png")
            figure.savefig(path, dpi=120)
            plt.close(figure)
    return paths


def main(arguments: Sequence[str] = ()) -> None:
    if arguments:
        results.RESULTS = Path(arguments[0])
    for path in draw_all():
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
