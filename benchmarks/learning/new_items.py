"""What an agent makes of states and items that it has not seen: `python -m benchmarks.learning.new_items [NAME...]`.

It is trained on 710 of the 835 generated items, which are all that its users visit and are offered. Then, without an
update, it meets the other 125: as states; as items beside the old ones; and in a catalogue that lost 210 of the old
ones, so that a fifth of it is new. All values are exact. Each training writes one file under
benchmarks/results/learning; finished ones are skipped.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from stable_baselines3.common.vec_env import VecMonitor

from benchmarks.learning.runs import result_path
from benchmarks.measure import environment, read_result, say
from wolpertinger import Wolpertinger
from wolpertinger.envs import GymnasiumVecEnv
from wolpertinger.envs.acceptance import Acceptance
from wolpertinger.envs.catalogue import Catalogue, load_catalogue
from wolpertinger.envs.recommender import RecommenderTask, RecommenderVector
from wolpertinger.envs.user_model import UserModel
from wolpertinger.runs import make_config
from wolpertinger.runs.build import make_agent
from wolpertinger.runs.config import RunConfig
from wolpertinger.runs.presets import merge

SEEDS = range(3)
ITEMS, NEW, LEAVING = 835, 125, 210
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shop:
    """A catalogue whose last items are new, and of which the first of the old ones will leave."""

    catalogue: Catalogue
    n: int
    n_new: int
    n_leaving: int

    @property
    def old(self) -> Ids:
        return np.arange(self.n - self.n_new)

    @property
    def new(self) -> Ids:
        return np.arange(self.n - self.n_new, self.n)

    @property
    def kept(self) -> Ids:
        """What is there after the swap, new items included."""
        return np.arange(self.n_leaving, self.n)

    def of(self, items: Ids) -> Catalogue:
        """These items alone."""
        return choose_items(self.catalogue, items)

    @cached_property
    def model(self) -> UserModel:
        """Users who visit, and are offered, all items."""
        return UserModel(self.catalogue.acceptance, self.catalogue.rewards)

    @cached_property
    def model_of_old(self) -> UserModel:
        """Users who visit all items, and accept no new one: the best policy offers old ones only."""
        chances = self.catalogue.acceptance.rows(np.arange(self.n))
        chances[:, self.new] = 0
        return UserModel(Acceptance(chances), self.catalogue.rewards)


def make_shop(seed: int, items: int = ITEMS, new: int = NEW, leaving: int = LEAVING) -> Shop:
    """The generated catalogue in a random order."""
    order = np.random.default_rng(seed).permutation(items)
    return Shop(choose_items(load_catalogue(items=items), order), items, new, leaving)


def choose_items(catalogue: Catalogue, items: Ids) -> Catalogue:
    """Some items of a catalogue, in this order: refused users go to one of these."""
    acceptance = catalogue.acceptance
    base, weight = acceptance.base[items], acceptance.weight[items]
    chances = acceptance.rows(items)[:, items]
    beyond = chances - weight[:, None] * base
    np.fill_diagonal(beyond, chances.diagonal())  # where no base rate counts
    rewards, vectors = np.asarray(catalogue.rewards)[items], np.asarray(catalogue.vectors)[items]
    return Catalogue(Acceptance(sp.csr_array(beyond), base, weight), rewards, vectors)


def train(catalogue: Catalogue, config: RunConfig) -> Wolpertinger:
    """An agent that has seen this catalogue only."""
    users = RecommenderVector(RecommenderTask(catalogue, None), config.n_envs)
    agent = make_agent(config, VecMonitor(GymnasiumVecEnv(users)), "cpu")
    return agent.learn(config.steps, log_interval=10**9)


def choose(agent: Wolpertinger, shop: Shop, states: Ids) -> Ids:
    """What the agent recommends in these states."""
    return np.asarray(agent.predict(np.asarray(shop.catalogue.vectors)[states], deterministic=True)[0], np.int64)


def measure(agent: Wolpertinger, shop: Shop) -> dict[str, dict[str, float]]:
    """What an agent of the old items makes of the rest, with its settings for what is new and without.

    Shares of what is possible. Changes the agent's actions.
    """
    table: Any = agent.actions
    on_old = choose_twice(agent, shop, np.arange(shop.n))
    table.add(np.asarray(shop.catalogue.vectors)[shop.new])
    on_all = choose_twice(agent, shop, np.arange(shop.n))
    table.remove(np.arange(shop.n_leaving))
    on_kept = choose_twice(agent, shop, shop.kept)
    return {how: judge(shop, on_old[how], on_all[how], on_kept[how] - shop.n_leaving) for how in on_old}


def choose_twice(agent: Wolpertinger, shop: Shop, states: Ids) -> dict[str, Ids]:
    """What the agent recommends in these states, and what it would without neighbours and optimism."""
    found = {"with": choose(agent, shop, states)}
    source: Any = agent.policy.predictor.source
    towers = [critic.networks[0] for critic in (agent.critic, source.snapshot)]
    rows = [tower.embedding for each in towers for tower in (each.state_tower, each.action_tower)]
    before = [(each.neighbours, each.optimism) for each in rows]
    for each in rows:
        each.neighbours, each.optimism = 0, 0.0
    source.critic_updated()
    found["without"] = choose(agent, shop, states)
    for each, (neighbours, optimism) in zip(rows, before, strict=True):
        each.neighbours, each.optimism = neighbours, optimism
    source.critic_updated()
    return found


def judge(shop: Shop, on_old: Ids, on_all: Ids, on_kept: Ids) -> dict[str, float]:
    """Policies of old items and of all items in all states, and of the swapped catalogue by its own numbers."""
    old, everything, kept = shop.model_of_old, shop.model, UserModel(*rules(shop.of(shop.kept)))
    return {
        "seen states": share(UserModel(*rules(shop.of(shop.old))), on_old[shop.old]),
        "seen states, one step": share_of_step(old, on_old, shop.old),
        "unseen states": share(old, on_old, shop.new),
        "unseen states, one step": share_of_step(old, on_old, shop.new),
        "items added": share(everything, on_all),
        **share_of_new("added", everything, on_all, shop.new),
        "items swapped": share(kept, on_kept),
        **share_of_new("swapped", kept, on_kept, shop.new - shop.n_leaving),
    }


def rules(catalogue: Catalogue) -> tuple[Acceptance, npt.ArrayLike]:
    return catalogue.acceptance, catalogue.rewards


def share(model: UserModel, policy: Ids, states: Ids | slice = slice(None)) -> float:
    """A policy's return, over the optimum's, of sessions that begin in these states."""
    return float(model.evaluate(policy)[states].mean() / model.optimum.values[states].mean())


def share_of_step(model: UserModel, policy: Ids, states: Ids) -> float:
    """What the first recommendation gains in these states if the best policy goes on, over what the best one gains."""
    gain, best = model.gain(model.optimum.values), model.optimum.policy
    chosen, possible = (
        (model.acceptance.at(states, items[states]) * gain[items[states]]).sum() for items in (policy, best)
    )
    return float(chosen / possible)


def share_of_new(name: str, model: UserModel, policy: Ids, new: Ids) -> dict[str, float]:
    """In which share of the states a new item is recommended, by the policy and by the best one."""
    return {
        f"{name}: new chosen": float(np.isin(policy, new).mean()),
        f"{name}: new chosen by the best": float(np.isin(model.optimum.policy, new).mean()),
    }


STEPS = 500_000  # a sixth of the preset's: half a minute of a core
KEPT = {"critic": {"state_neighbours": 8, "optimism": 0.15}}
OLD, SWAPPED, UNIFORM = "old items", "swapped items", "old items, uniform exploration"
TRAINED: dict[str, dict[str, Any]] = {OLD: KEPT, SWAPPED: KEPT, UNIFORM: merge(KEPT, {"exploration": {"guided": 0.0}})}


def trainings() -> dict[str, dict[str, Any]]:
    """Every training by name: the arguments of `make_config`."""
    return {
        name_of(what, seed): {"changes": changes, "steps": STEPS, "seed": seed}
        for seed in SEEDS
        for what, changes in TRAINED.items()
    }


def name_of(what: str, seed: int) -> str:
    return f"new-items/{what}/seed-{seed}"


def run(name: str, arguments: dict[str, Any]) -> None:
    """Train and measure one entry, and write its result."""
    _, what, _ = name.split("/")
    config, shop, start = make_config("recommender", **arguments), make_shop(arguments["seed"]), time.perf_counter()
    agent = train(shop.of(shop.kept if what == SWAPPED else shop.old), config)
    seconds = time.perf_counter() - start
    if what == SWAPPED:
        policy = choose(agent, shop, shop.kept)  # by the numbers of what it was trained on
        found: Any = {"items swapped": share(UserModel(*rules(shop.of(shop.kept))), policy)}
    else:
        found = measure(agent, shop)
    content = {"name": name, "command": f"python -m benchmarks.learning.new_items {name!r}", "config": asdict(config)}
    content |= {"seconds": seconds, "found": found, "environment": environment()}
    result_path(name).write_text(json.dumps(content, indent=1) + "\n")


def result(name: str) -> dict[str, Any] | None:
    """A training's result; None if there is none, or one of other settings than it has now."""
    path = result_path(name)
    if not path.exists():
        return None
    kept: dict[str, Any] = json.loads(path.read_text())
    config = asdict(make_config("recommender", **trainings()[name]))
    return kept if kept["config"] == json.loads(json.dumps(config)) else None


def results(what: str) -> list[Any]:
    """What was found, seed by seed; what is missing is left out."""
    kept = (result(name_of(what, seed)) for seed in SEEDS)
    return [entry["found"] for entry in kept if entry is not None]


def table() -> str:
    """For docs/search.md: with the settings for what is new, and the same agents without."""
    found = results(OLD)
    if not found:
        return "missing"
    trained = [entry["items swapped"] for entry in results(SWAPPED)]
    rows = ["| share of what is possible, mean (seeds) | without | neighbours and optimism |", "| --- | --- | --- |"]

    def row(label: str, name: str, by: list[float] | None = None) -> None:
        cells = []
        for how in ("without", "with"):
            values = [entry[how][name] for entry in found]
            cells.append(
                seeds(values if by is None else [mine / other for mine, other in zip(values, by, strict=False)])
            )
        rows.append(f"| {label} | {' | '.join(cells)} |")

    row("seen states", "seen states")
    row("seen states, the first recommendation alone", "seen states, one step")
    row("unseen states", "unseen states")
    row("unseen states, the first recommendation alone", "unseen states, one step")
    for name, label in (("added", f"{NEW} items added"), ("swapped", f"{LEAVING} items leave, {NEW} come")):
        best = statistics.mean(entry["with"][f"{name}: new chosen by the best"] for entry in found)
        row(label, f"items {name}")
        if name == "swapped" and trained:
            row(f"{label}: over an agent trained on these", "items swapped", trained)
        row(f"{label}: states in which a new one is chosen (best policy: {best:.1%})", f"{name}: new chosen")
    return "\n".join(rows)


def seeds(values: list[float]) -> str:
    return (
        f"**{statistics.mean(values):.1%}** ({', '.join(f'{value:.1%}' for value in values)})" if values else "missing"
    )


def guided_table() -> str:
    """For docs/search.md: what guided exploration is worth on what was seen."""
    rows = ["| exploration | seen states | unseen states |", "| --- | --- | --- |"]
    for what, label in ((OLD, "80 % from the subset that the environment offers"), (UNIFORM, "uniform")):
        found = results(what)
        cells = (seeds([entry["with"][name] for entry in found]) for name in ("seen states", "unseen states"))
        rows.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(rows)


def tried_table() -> str:
    """For the decision: what was tried before, typed from the output of those runs into a file."""
    kept = read_result("learning.new_items_tried")
    if kept is None:
        return "missing"
    best = kept["new_by_the_best"]
    rows = [
        "| tried | steps | seen states, first recommendation | unseen states, first recommendation | items added "
        f"| new ones chosen (best: {best['added']:.1%}) | items swapped "
        f"| new ones chosen (best: {best['swapped']:.1%}) |",
        "| --- |" + " ---: |" * 7,
    ]
    for entry in kept["tried"]:
        names = ("seen", "unseen", "added", "new_added", "swapped", "new_swapped")
        cells = " | ".join(f"{entry[name]:.1%}" for name in names)
        rows.append(f"| {entry['what']} | {entry['steps']:,} | {cells} |")
    return "\n".join(rows)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("README.md", "new-items"): table,
    ("docs/search.md", "new-items"): table,
    ("docs/search.md", "guided"): guided_table,
    ("docs/decisions/028-new-states-and-items.md", "new-items-tried"): tried_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning.new_items", description=__doc__)
    parser.add_argument("names", nargs="*", help="trainings whose name begins so (default: all)")
    names = parser.parse_args().names
    torch.set_num_threads(1)
    for name, arguments in trainings().items():
        if name.startswith(tuple(names) or "") and result(name) is None:
            say(name)
            run(name, arguments)


if __name__ == "__main__":
    main()
