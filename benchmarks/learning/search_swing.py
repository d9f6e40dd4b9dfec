"""Why the critic's search swings as it learns: `python -m benchmarks.learning.search_swing`.

The demo's agent (Complete Journey, 835 items, scaled) is looked at every 15 iterations: what its critic's policy is
worth exactly, what the target critic's would be, an average of the critics of late, and which item is to blame.
A second agent acts by the target critic; targets are as ever.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.learning.search import DEMO, ablated
from benchmarks.measure import read_result, write_result
from wolpertinger import Wolpertinger
from wolpertinger.envs.user_model import UserModel
from wolpertinger.networks import Critic
from wolpertinger.policy.scoring import evaluate
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.config import make_config

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "search-swing.png"
SEEDS = range(3)
STEPS, EVERY = 900_000, 15
SCHEDULED = 3_000_000  # steps of the demo, over which its learning rate falls
SETTLED = 200_000  # steps, after which falls are listed
KINDS = {"as it is": "acting by the critic", "target": "acting by the target critic"}
LISTED = 6


class Watcher(BaseCallback):
    """Looks at the policy now and then."""

    model: Wolpertinger

    def __init__(self, users: UserModel) -> None:
        super().__init__()
        self.users = users
        self.looks: list[dict[str, Any]] = []
        self.lost: npt.NDArray[np.float64] = np.zeros(users.n)  # by each item, at the last look

    def _on_step(self) -> bool:
        if self.model._n_updates and self.n_calls % EVERY == 0:
            self.looks.append(self.look())
        return self.num_timesteps < STEPS

    @torch.no_grad()
    def look(self) -> dict[str, Any]:
        users, states = self.users, np.arange(self.users.n)
        policy, values = self.policy_of(self.model.critic)
        worth = users.evaluate(policy)
        items, counts = np.unique(policy, return_counts=True)
        # What choosing an item is worth, by what the optimum gains from it, and by the best one there.
        chance, gain = users.acceptance.at(states, policy), users.gain(users.optimum.values)
        best = users.acceptance.best(gain)[0]
        lost = np.bincount(policy, best - chance * gain[policy], minlength=users.n).astype(np.float64)
        worst = int((lost - self.lost).argmax())
        self.lost = lost
        return {
            "steps": self.model.num_timesteps,
            "share": worth.mean() / users.optimum.value,
            "target_share": users.evaluate(self.policy_of(self.model.critic_target)[0]).mean() / users.optimum.value,
            "believed": float(values.mean()),
            "true": worth.mean(),
            "distinct": len(items),
            "worst_item": worst,
            "in_states": int(counts[items == worst].sum()),
            "accepted": float(users.acceptance.at(states, np.full(users.n, worst)).mean()),
            "price": float(users.rewards[worst]),
        }

    def policy_of(self, critic: Critic) -> tuple[np.ndarray, torch.Tensor]:
        """The best item of each state, and its value, by this critic."""
        vectors = torch.from_numpy(self.model.actions.embed(np.arange(self.users.n))).float()
        value, place = evaluate(critic, critic.features(vectors), vectors).max(dim=1)  # states are items' vectors
        return place.numpy(), value


def measure(kind: str, seed: int) -> list[dict[str, Any]]:
    changes = {"policy_kwargs": {"predict_by": "target"}}
    config = make_config("recommender", **{**ablated(DEMO), "seconds": None, "seed": seed, "changes": changes})
    env = make_env(config)
    agent = make_agent(config, env)
    if kind == "target":
        behaviour, predictor, rank = agent.policy.behaviour, agent.policy.predictor, agent.policy.behaviour.rank

        def act(states: Any, critic: Critic, top: int = 1) -> Any:
            acts = critic is agent.critic
            return predictor.rank(states, agent.critic_target, top) if acts else rank(states, critic, top)

        behaviour.rank = act  # type: ignore[method-assign]
    watcher = Watcher(env.get_attr("model")[0])
    agent.learn(SCHEDULED, callback=watcher)
    return watcher.looks


def falls(runs: list[list[dict[str, Any]]], name: str = "share") -> list[dict[str, Any]]:
    """The looks at which a policy stands lowest below the best that it had reached, deepest first."""
    found = []
    for seed, looks in enumerate(runs):
        best = 0.0
        for look in looks:
            best = max(best, look[name])
            if look["steps"] >= SETTLED:
                found.append({**look, "seed": seed, "fall": best - look[name]})
    return sorted(found, key=lambda look: -look["fall"])[:LISTED]


def results() -> dict[str, Any] | None:
    kept = read_result("learning.search_swing")
    return None if kept is None else kept["kinds"]


def falls_table() -> str:
    """For docs/search.md: the deepest falls, and the item that each is due to."""
    found = results()
    if found is None:
        return "missing"
    rows = [
        "| seed, steps | the critic's policy | the target's | item to blame | chosen in states | accepted | price |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for look in falls(found["as it is"]):
        cells = [f"{look['seed']}, {look['steps']:,}", f"{look['share']:.1%} (-{100 * look['fall']:.1f})"]
        cells += [f"{look['target_share']:.1%}", str(look["worst_item"]), str(look["in_states"])]
        cells += [f"{look['accepted']:.1%}", f"{look['price']:.2f}"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def summary_table() -> str:
    """Both ways to act, from when they have settled on."""
    found = results()
    if found is None:
        return "missing"
    rows = [
        "| | critic's policy, mean | its deepest fall | last (seeds) | target's policy, mean | its deepest fall "
        "| last (seeds) |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, label in KINDS.items():
        cells = [label]
        for name in ("share", "target_share"):
            shares = [look[name] for run in found[kind] for look in run if look["steps"] >= SETTLED]
            cells += [f"{np.mean(shares):.1%}", f"{100 * falls(found[kind], name)[0]['fall']:.1f}"]
            cells.append(", ".join(f"{run[-1][name]:.1%}" for run in found[kind]))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def draw(kinds: dict[str, list[list[dict[str, Any]]]]) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
    for panel, (kind, label) in zip(axes, KINDS.items(), strict=True):
        looks = kinds[kind][0]
        steps = [look["steps"] for look in looks]
        panel.plot(steps, [look["share"] for look in looks], linewidth=1, label="policy of the critic")
        panel.plot(steps, [look["target_share"] for look in looks], label="policy of the target critic")
        panel.set(title=label, xlabel="transitions", ylim=(0.5, 0.92))
        panel.yaxis.set_major_formatter("{x:.0%}")
        panel.legend(loc="lower right", frameon=False)
    axes[0].set_ylabel("share of the optimum")
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


TABLES = {("docs/search.md", "swing"): falls_table, ("docs/search.md", "swing-summary"): summary_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    found = {kind: [measure(kind, seed) for seed in SEEDS] for kind in KINDS}
    write_result("learning.search_swing", {"kinds": found})
    draw(found)
    print(falls_table(), summary_table(), sep="\n")


if __name__ == "__main__":
    main()
