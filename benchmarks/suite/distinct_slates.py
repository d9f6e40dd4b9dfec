"""A million slates of SARDINE's size, by every way to find one: how many hold an item twice, or a forbidden one.

`python -m benchmarks.suite.distinct_slates` writes results/suite/distinct_slates.json. States are random, and networks
get new random weights for every batch: an untrained critic alone would pick much the same slates everywhere.
"""

from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from benchmarks.measure import say, write_result
from wolpertinger import ActionTable, Slate, Wolpertinger

ITEMS, DIM, SIZE, STOCK, BATCH, SLATES = 1_000, 10, 10, 0.05, 500, 1_000_000
# Of the slates, by form, unrestricted and restricted: what takes longer is looked at less often.
SHARES = {"random": (0.3, 0.0), "top": (0.3, 0.2), "slots": (0.08, 0.04), "nearest": (0.05, 0.03)}
FORMS: dict[str, dict[str, Any]] = {
    "top": {"candidates": "top", "critic": "per-item"},
    "slots": {"candidates": "slots", "critic": "mlp", "k": 4},
    "nearest": {"candidates": "nearest", "critic": "mlp", "k": 4},
}


class Page(gym.Env):
    """Only its spaces are of interest."""

    observation_space = spaces.Box(-1, 1, (3 * DIM,), np.float32)
    action_space = spaces.MultiDiscrete([ITEMS] * SIZE)


def draw(agent: Wolpertinger, rng: np.random.Generator, restricted: bool) -> tuple[npt.NDArray, list[Any] | None]:
    """A batch of slates, and the items that their states allowed."""
    with torch.no_grad():
        for network in (agent.actor, agent.critic, agent.critic_target):
            for weights in network.parameters():
                weights.normal_(0, 0.3)
    obs = rng.uniform(-1, 1, (BATCH, 3 * DIM)).astype(np.float32)
    in_stock = max(SIZE, round(STOCK * ITEMS))
    allowed = [rng.choice(ITEMS, in_stock, replace=False) for _ in obs] if restricted else None
    return agent.predict(obs, deterministic=True, allowed=allowed)[0], allowed


def count(form: str, restricted: bool, slates: int) -> dict[str, int]:
    """How many slates of one form were looked at, and how many of them are wrong."""
    rng = np.random.default_rng(0)
    items = Slate(ActionTable(rng.normal(size=(ITEMS, DIM)).astype(np.float32)), size=SIZE)
    found = {"slates": 0, "with an item twice": 0, "with an item that is not allowed": 0}
    settings = {} if form == "random" else FORMS[form]
    agent = Wolpertinger("MlpPolicy", Page(), items, seed=0, device="cpu", buffer_size=10, **settings)
    while found["slates"] < slates:
        drawn, allowed = (items.sample(rng, BATCH), None) if form == "random" else draw(agent, rng, restricted)
        found["slates"] += len(drawn)
        found["with an item twice"] += sum(len(set(slate)) < SIZE for slate in drawn.tolist())
        if allowed is not None:
            pairs = zip(drawn, allowed, strict=True)
            found["with an item that is not allowed"] += sum(not np.isin(slate, own).all() for slate, own in pairs)
    return found


def main() -> None:
    torch.set_num_threads(1)
    found = {}
    for form, restricted in product(SHARES, (False, True)):
        if not (share := SHARES[form][restricted]):
            continue
        name = f"{form}, {STOCK:.0%} of the items allowed" if restricted else form
        found[name] = count(form, restricted, round(share * SLATES))
        say(f"{name}: {found[name]}")
    total = {name: sum(own[name] for own in found.values()) for name in found["random"]}
    path = write_result("suite.distinct_slates", {"items": ITEMS, "size": SIZE, "total": total, "forms": found})
    say(f"{total}, wrote {path.name}")


if __name__ == "__main__":
    main()
