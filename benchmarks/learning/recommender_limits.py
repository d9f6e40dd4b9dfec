"""What an agent could learn of the Complete Journey at best: `python -m benchmarks.learning.recommender_limits`.

Three questions with exact answers, all as shares of the optimum: what a policy of few items is worth, what can be told
of an item that was never seen from its vector, and what a table of every state learns from so many recommendations.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import read_result, write_result
from wolpertinger.envs.user_model import UserModel
from wolpertinger.runs.build import make_env
from wolpertinger.runs.config import make_config

SIZES = (835, 13_138)
DIMS = (20, 200)
FEW = (1, 2, 4, 10, 30, 100)
TRIED = (2, 4, 10, 30)  # items that a table has columns for
SAMPLES = (300_000, 1_000_000, 3_000_000, 10_000_000)
HIDDEN = 1_000  # random units between vectors and acceptance
RIDGES = (1.0, 10.0, 100.0, 1_000.0)

Array = npt.NDArray[np.float64]


def measure(items: int) -> dict[str, Any]:
    """The three limits for a catalogue of this size."""
    model, _ = make_model(items, DIMS[0])
    gain, order = model.gain(model.optimum.values), favourites(model)
    columns = {j: model.acceptance.at(np.arange(model.n), np.full(model.n, j)) for j in order[: max(FEW)]}

    def share(chosen: npt.NDArray[np.int64], values: Array) -> float:
        """Of the policy that takes, of the chosen items, the one with the largest value in each state."""
        return float(model.evaluate(chosen[(values * gain[chosen]).argmax(axis=1)]).mean() / model.optimum.value)

    few = {n: share(order[:n], np.stack([columns[j] for j in order[:n]], axis=1)) for n in FEW}
    rng = np.random.default_rng(0)
    learned = {}
    for n in TRIED:
        chances = np.stack([columns[j] for j in order[:n]], axis=1)
        learned[n] = {total: share(order[:n], estimate(chances, total, rng)) for total in SAMPLES}
    told = {dim: told_by_vectors(*make_model(items, dim), share) for dim in DIMS}
    return {"few": few, "table": learned, "vectors": told}


def make_model(items: int, dim: int) -> tuple[UserModel, Array]:
    """The users, and the items' vectors."""
    env = make_env(make_config("recommender", env={"data": "complete-journey", "items": items, "dim": dim}), 1)
    return env.get_attr("model")[0], np.asarray(env.get_attr("actions")[0].vectors, np.float64)


def favourites(model: UserModel) -> npt.NDArray[np.int64]:
    """Items by the number of states whose best one they are, most first."""
    return np.bincount(model.optimum.policy, minlength=model.n).argsort(kind="stable")[::-1]


def estimate(chances: Array, total: int, rng: np.random.Generator) -> Array:
    """Chances (states, items) as so many recommendations in all tell them, shared out evenly.

    The mean over states and the spread around it are taken as known, and every estimate is drawn to the mean as far as
    its noise warrants: no learner that takes states one by one does better on average.
    """
    tries = max(1, round(total / chances.size))
    mean, spread = chances.mean(axis=0), chances.var(axis=0)
    weight = spread / (spread + mean * (1 - mean) / tries)
    return mean + weight * (rng.binomial(tries, chances) / tries - mean)


def told_by_vectors(model: UserModel, vectors: Array, share: Any) -> float:
    """The best that a ridge regression of acceptance on the state's vector gives in states that it has not seen.

    It knows the exact chances of all other states, and the better of two forms and four ridges is taken.
    """
    chosen = favourites(model)[: min(300, model.n)]
    chances = np.stack([model.acceptance.at(np.arange(model.n), np.full(model.n, j)) for j in chosen], axis=1)
    states = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    linear = np.concatenate([np.ones((model.n, 1)), states], axis=1)
    rng = np.random.default_rng(0)
    dim = states.shape[1]
    units = np.maximum(0, states @ rng.normal(size=(dim, HIDDEN)) / np.sqrt(dim) + rng.normal(size=HIDDEN))
    forms = linear, np.concatenate([linear, units], axis=1)
    return max(share(chosen, left_out(form, chances, ridge)) for form in forms for ridge in RIDGES)


def left_out(inputs: Array, outputs: Array, ridge: float) -> Array:
    """What a ridge regression on all other rows says of each row, in closed form."""
    inverse = np.linalg.inv(inputs.T @ inputs + ridge * np.eye(inputs.shape[1]))
    leverage = ((inputs @ inverse) * inputs).sum(axis=1)
    fitted = inputs @ (inverse @ (inputs.T @ outputs))
    return outputs - (outputs - fitted) / (1 - leverage)[:, None]


def table() -> str:
    """For docs/learning.md."""
    kept = read_result("learning.recommender_limits")
    if kept is None:
        return "missing"
    found = kept["sizes"]
    lines = [f"| share of the optimum | {' | '.join(f'{int(size):,} items' for size in found)} |"]
    lines.append("| --- |" + " ---: |" * len(found))

    def row(label: str, *path: str) -> None:
        cells = []
        for entry in found.values():
            for key in path:
                entry = entry[key]
            cells.append(f"{entry:.1%}")
        lines.append(f"| {label} | {' | '.join(cells)} |")

    for n in FEW:
        what = "one item for all" if n == 1 else f"the best policy of {n} items"
        row(what, "few", str(n))
    for dim in DIMS:
        row(f"acceptance told by vectors of {dim} numbers, in states not seen", "vectors", str(dim))
    for n in TRIED:
        for total in SAMPLES:
            row(f"a table of all states and {n} items, {total:,} recommendations", "table", str(n), str(total))
    return "\n".join(lines)


TABLES = {("docs/learning.md", "limits"): table}


def main() -> None:
    write_result("learning.recommender_limits", {"sizes": {size: measure(size) for size in SIZES}})
    print(table())


if __name__ == "__main__":
    main()
