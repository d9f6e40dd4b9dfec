"""The suite's page: `python -m benchmarks.suite.report` draws the curves; the tables are `benchmarks.tables`'."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.suite.results import OURS, RIVALS, anchors, read_runs
from benchmarks.suite.tables import NAMES

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "suite.png"
COLOURS = {OURS: "#1f5fa8", "dqn": "#c95f1e", "qr-dqn": "#dba13a", "ppo": "#5a8f4d", "ddpg": "#9a5aa0",
           "td3": "#b03a48", "sac": "#6b6b6b", "sac-topk": "#6b6b6b", "maskable-ppo": "#5a8f4d"}  # fmt: skip


def draw(tasks: list[str]) -> None:
    """One panel a task: score against processor seconds, a line for the mean over seeds, all seeds behind it."""
    columns = 3
    rows = -(-len(tasks) // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(12, 3.1 * rows), squeeze=False)
    for panel, name in zip(panels.flat, tasks, strict=False):
        for label in (OURS, *RIVALS[name]):
            _draw_runs(panel, name, label)
        for level, text in zip(anchors(name), ("random", "best known"), strict=True):
            panel.axhline(level, color="#999", linewidth=0.8, linestyle=":")
            panel.annotate(text, (1, level), xycoords=("axes fraction", "data"), fontsize=7, color="#777", ha="right")
        panel.set(title=name, xlabel="processor seconds")
        panel.spines[["top", "right"]].set_visible(False)
    for panel in list(panels.flat)[len(tasks) :]:
        panel.set_visible(False)
    handles = {
        line.get_label(): line for panel in panels.flat for line in panel.get_lines() if line.get_label()[0] != "_"
    }
    figure.legend(handles.values(), handles, loc="lower right", frameon=False)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)


def _draw_runs(panel: plt.Axes, task: str, label: str) -> None:
    runs = read_runs(task, f"{label}-seconds") or read_runs(task, label)
    if not runs:
        return
    curves = [np.asarray(run["curve"]) for run in runs]
    for curve in curves:
        panel.plot(curve[:, 3], curve[:, 1], color=COLOURS[label], alpha=0.2, linewidth=0.8)
    length = min(map(len, curves))
    mean = np.mean([curve[:length] for curve in curves], axis=0)
    panel.plot(mean[:, 3], mean[:, 1], color=COLOURS[label], linewidth=1.8, label=NAMES[label].strip("`"))


def main() -> None:
    draw([task for task in RIVALS if read_runs(task, OURS)])


if __name__ == "__main__":
    main()
