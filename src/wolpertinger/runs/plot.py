"""Pictures of runs, drawn from their files only."""

import csv
import io
import json
from pathlib import Path

from wolpertinger.atomic import write_bytes


def read_curve(folder: Path) -> dict[str, list[float]]:
    """A run's learning curve by column."""
    with (folder / "curve.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0] if rows[0][name]}  # no share: no column


def plot_curve(folder: Path) -> Path:
    """Draw a run's learning curve between its baselines into curve.png."""
    from matplotlib.figure import Figure  # without pyplot, which would choose a backend for the whole process

    curve = read_curve(folder)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(curve["steps"], curve["return"], marker="o", markersize=3, label="agent")
    baselines = json.loads((folder / "result.json").read_text())["baselines"]
    for (name, value), style in zip(baselines.items(), ("-", "--", ":"), strict=False):
        axes.axhline(value, color="black", linestyle=style, linewidth=1, label=f"{name} {value:.2f}")
    axes.set(xlabel="transitions", ylabel="return of the policy")
    if min(curve["return"]) >= 0:
        axes.set_ylim(0, 1.05 * max(*curve["return"], *baselines.values()))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    axes.grid(alpha=0.3)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    write_bytes(folder / "curve.png", picture.getvalue())
    return folder / "curve.png"
