"""Recall against time, drawn from a lookup result only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

PANEL_WIDTH, HEIGHT = 4.4, 4.8  # inches
BLUR = 3e-3  # losses of recall below this look alike
RECALL_TICKS = (0, 0.5, 0.7, 0.9, 0.97, 0.99, 1)


def plot_lookup(result: Mapping[str, Any], path: Path) -> Path:
    """One panel for each k: a line for each contender, a star for ours at each target.

    Faint dots are settings that another one of the same contender beats in both time and recall.
    """
    curves = result["curves"]
    figure, axes = plt.subplots(
        1, len(curves), figsize=(PANEL_WIDTH * max(2, len(curves)), HEIGHT), layout="constrained", squeeze=False
    )
    colours = {name: f"C{number}" for number, name in enumerate(result["contenders"])}
    handles: dict[str, Any] = {}
    for panel, curve in zip(axes[0], curves, strict=True):
        for name, points in curve["points"].items():
            if points:
                panel.plot(*_columns(points), ".", color=colours[name], alpha=0.25, markersize=4)
                (handles[name],) = panel.plot(*_columns(_efficient(points)), color=colours[name], marker=".")
        handles |= _draw_ours(panel, [cell for cell in result["cells"] if cell["k"] == curve["k"]])
        _label(panel, curve["k"], result)
    axes[0][0].set_ylabel("recall on held-out queries")
    figure.suptitle(f"{result['set']}: {result['n']:,} x {result['dim']}, one thread, batches of {result['batch']}")
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _efficient(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings that no other one beats in both time and recall, quickest first."""
    kept: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda point: (point["ms"], -point["recall"])):
        if not kept or point["recall"] > kept[-1]["recall"]:
            kept.append(point)
    return kept


def _columns(points: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    return [point["ms"] for point in points], [point["recall"] for point in points]


def _draw_ours(panel: Axes, cells: list[dict[str, Any]]) -> dict[str, Any]:
    ours = [cell["ours"] for cell in cells]
    stars = panel.scatter(*_columns(ours), marker="*", s=150, color="black", edgecolors="white", zorder=5)
    return {"ours, tuned to each recall": stars}


def _label(panel: Axes, k: int, result: Mapping[str, Any]) -> None:
    for target in result["targets"]:
        panel.axhline(target, color="black", linewidth=0.8, linestyle=":")
    panel.set(title=f"k = {k:,}", xlabel="milliseconds per query", xscale="log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    # The last percents of recall are the dear ones: give each factor of what is lost the same room.
    panel.set_yscale("function", functions=(_stretch, _shrink))
    panel.yaxis.set_major_locator(FixedLocator(RECALL_TICKS))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.set_ylim(0, 1.0002)  # room for what is exact
    panel.tick_params(axis="x", labelsize=8)
    panel.grid(alpha=0.3)


def _stretch(recall: Any) -> Any:
    return -np.log10(np.maximum(1 + BLUR - np.asarray(recall, float), BLUR / 2))


def _shrink(height: Any) -> Any:
    return 1 + BLUR - 10 ** -np.asarray(height, float)
