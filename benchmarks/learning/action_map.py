"""What a two-tower critic has learned of the actions, beside their given vectors.

`python -m benchmarks.learning.action_map` makes a picture and figures for docs/search.md, from the first runs of
`python -m benchmarks.learning default`.
"""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

from benchmarks.learning.runs import RUNS, result_path
from benchmarks.measure import read_result, write_result
from wolpertinger import Wolpertinger
from wolpertinger.envs.generated import GeneratorSettings, draw_categories
from wolpertinger.envs.user_model import UserModel
from wolpertinger.runs.build import make_env
from wolpertinger.runs.config import read_config

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "action-vectors.png"
NEIGHBOURS = 10
TASKS = {"generated": "category", "complete-journey": "worth"}
KINDS = {"given": "given vectors", "learned": "learned vectors, psi"}
Array = npt.NDArray[np.float64]


def measure(task: str) -> dict[str, Any]:
    """Both kinds of vectors in their two main directions, with a colour for each item, and how alike neighbours are."""
    folder = RUNS / result_path(f"default/{task}/seed-0").stem
    config = read_config(folder)
    env = make_env(config, 1)
    agent = Wolpertinger.load(folder / "checkpoints" / "last.zip", env)
    vectors = {"given": np.asarray(env.get_attr("actions")[0].vectors), "learned": agent.action_vectors()}
    model = env.get_attr("model")[0]
    if TASKS[task] == "category":
        rng = np.random.default_rng(config.env["data_seed"])
        colours = draw_categories(model.n, GeneratorSettings(), rng).astype(np.float64)
    else:
        colours = np.log10(worth(model))
    return {
        "colour": TASKS[task],
        "colours": colours.round(3).tolist(),
        "points": {kind: in_two_directions(found).round(3).tolist() for kind, found in vectors.items()},
        "alike": {kind: alike(found, colours, TASKS[task]) for kind, found in vectors.items()},
    }


def worth(model: UserModel) -> Array:
    """Chance of acceptance over all states, times the gain then."""
    states = np.arange(model.n)
    chances = [model.acceptance.at(states, np.full(model.n, item)).mean() for item in states]
    return np.array(chances) * model.gain(model.optimum.values)


def in_two_directions(vectors: npt.NDArray) -> Array:
    """Principal components (n, 2)."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T


def alike(vectors: npt.NDArray, colours: Array, colour: str) -> float:
    """Share of the nearest neighbours in the same category; or how much closer in worth they are than any two items."""
    squared = ((vectors[:, None].astype(np.float64) - vectors[None]) ** 2).sum(axis=-1)
    np.fill_diagonal(squared, np.inf)
    near = np.argpartition(squared, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    if colour == "category":
        return float((colours[near] == colours[:, None]).mean())
    apart = np.abs(colours[:, None] - colours[None])
    return float(np.abs(colours[near] - colours[:, None]).mean() / apart[~np.eye(len(colours), dtype=bool)].mean())


def draw(found: dict[str, Any]) -> None:
    figure, axes = plt.subplots(len(found), len(KINDS), figsize=(9, 8.6), layout="constrained")
    for row, (task, about) in zip(axes, found.items(), strict=True):
        is_category = about["colour"] == "category"
        for panel, (kind, label) in zip(row, KINDS.items(), strict=True):
            x, y = np.array(about["points"][kind]).T
            colours = {"c": about["colours"], "cmap": "tab10" if is_category else "viridis"}
            dots = panel.scatter(x, y, s=9, linewidths=0, **colours)
            panel.set(title=f"{task}: {label}", xticks=[], yticks=[])
        name = "category" if is_category else "worth of the item over all states, log10"
        figure.colorbar(dots, ax=row, label=name, shrink=0.8)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


def table() -> str:
    """For docs/search.md."""
    kept = read_result("learning.action_map")
    if kept is None:
        return "missing"
    found = kept["tasks"]
    lines = ["| of an item's 10 nearest | given vectors | learned vectors |", "| --- | ---: | ---: |"]
    labels = {"category": "in its category", "worth": "distance in worth, over that of any two items"}
    for task, about in found.items():
        cells = " | ".join(f"{about['alike'][kind]:.0%}" for kind in KINDS)
        lines.append(f"| {task}: {labels[about['colour']]} | {cells} |")
    return "\n".join(lines)


TABLES = {("docs/search.md", "action-map"): table}


def main() -> None:
    found = {task: measure(task) for task in TASKS}
    write_result("learning.action_map", {"tasks": found})
    draw(found)
    print(table())


if __name__ == "__main__":
    main()
