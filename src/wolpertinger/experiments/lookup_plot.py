"""Recall against time, drawn from a lookup result only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

PANEL_WIDTH, HEIGHT = 4.2, 4.6  # inches
LEAST_LOSS = 1e-3  # of recall that is told apart on the axis


def plot_lookup(result: Mapping[str, Any], path: Path) -> Path:
    """One panel for each k: a line for each contender, a star for ours at each target."""
    curves = result["curves"]
    figure, axes = plt.subplots(
        1, len(curves), figsize=(PANEL_WIDTH * max(2, len(curves)), HEIGHT), layout="constrained", squeeze=False
    )
    colours = {name: f"C{number}" for number, name in enumerate(result["contenders"])}
    handles: dict[str, Any] = {}
    for panel, curve in zip(axes[0], curves, strict=True):
        for name, points in curve["points"].items():
            if points:
                (handles[name],) = panel.plot(*_efficient(points), marker="o", markersize=3, color=colours[name])
        handles |= _draw_ours(panel, [cell for cell in result["cells"] if cell["k"] == curve["k"]])
        _label(panel, curve["k"], result)
    axes[0][0].set_ylabel("recall on held-out queries")
    figure.suptitle(f"{result['set']}: {result['n']:,} x {result['dim']}, one thread, batches of {result['batch']}")
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _efficient(points: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Milliseconds and recall of the settings, by effort."""
    ordered = sorted(points, key=lambda point: point["setting"])
    return [point["ms"] for point in ordered], [point["recall"] for point in ordered]


def _draw_ours(panel: Axes, cells: list[dict[str, Any]]) -> dict[str, Any]:
    milliseconds, recalls = zip(*((cell["ours"]["ms"], cell["ours"]["recall"]) for cell in cells), strict=True)
    stars = panel.scatter(milliseconds, recalls, marker="*", s=170, color="black", zorder=5)
    return {"ours, tuned to each recall": stars}


def _label(panel: Axes, k: int, result: Mapping[str, Any]) -> None:
    for target in result["targets"]:
        panel.axhline(target, color="black", linewidth=0.6, linestyle=":")
    panel.set(title=f"k = {k:,}", xlabel="milliseconds per query", xscale="log", ylim=(0, 1.03))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.grid(alpha=0.3)
