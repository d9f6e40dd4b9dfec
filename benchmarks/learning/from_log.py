"""What is learned from a log alone: `python -m benchmarks.learning.from_log [--minutes M]`.

A million recommendations of the 835 generated items, logged by a policy that picks items uniformly, by popularity, or
by an agent stopped at 100,000 transitions that explores with epsilon 0.3. All values are exact. Every method but
behaviour cloning has the networks and settings of the recommender's preset, in standard units; "online" is the same
agent with as many transitions of its own. Finished runs are in the result file and are skipped.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import commit, read_result, say, write_result
from wolpertinger import ActionTable, Exploration, Transitions, Wolpertinger
from wolpertinger.envs.recommender import RecommenderVector, make_vector
from wolpertinger.runs.presets import SEARCH

ITEMS, DIM, USERS, ROWS, UPDATES = 835, 20, 1_000, 1_000_000, 1_000
HALF_TRAINED, EPSILON = 100_000, 0.3
SEEDS = range(3)
MODULE = "learning.from_log"
NOT_OF_LOGS = ("learner", "exploration", "learning_starts", "train_freq", "gradient_steps")
SETTINGS = {name: value for name, value in SEARCH.items() if name not in NOT_OF_LOGS} | {"standardize": True}
METHODS: dict[str, dict[str, Any]] = {
    "offline": {"learner": "offline"},
    "plain off-policy": {"learner": "ddpg"},
    "offline, no temperature": {"learner": {"kind": "offline", "temperature": 1.0}},
    "the lower of two critics": {"learner": "ddpg", "policy_kwargs": {"n_critics": 2}},
}
Chances = npt.NDArray[np.float64]


def main() -> None:
    """Run what is missing, for at most so many minutes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1e9)
    deadline = time.monotonic() + 60 * parser.parse_args().minutes
    found = (read_result(MODULE) or {}).get("runs", {})
    env = make_env()
    for seed in SEEDS:
        for name, make in LOGS.items():
            chances: Chances | None = None
            for method in ("behaviour cloning", *METHODS, "online"):
                key = f"{'-' if method == 'online' else name}/{method}/{seed}"
                if key in found:
                    continue
                if time.monotonic() > deadline:
                    return
                chances = make(env) if chances is None else chances
                found[key] = measure(env, chances, method, seed)
                say(f"{key}: {found[key]}")
                write_result(MODULE, {"commit": commit(), "rows": ROWS, **exact_values(env), "runs": found})


def make_env(users: int = USERS) -> RecommenderVector:
    return make_vector(users, items=ITEMS, dim=DIM)


def exact_values(env: RecommenderVector) -> dict[str, float]:
    """What anything learned is between."""
    return {"optimum": env.model.optimum.value, "random": env.model.random_value}


def measure(env: RecommenderVector, chances: Chances, method: str, seed: int) -> dict[str, float]:
    """The exact value of what a method learns, beside that of the policy that wrote the log."""
    vectors, start = env.task.actions.vectors, time.perf_counter()
    if method == "online":
        agent = Wolpertinger("MlpPolicy", make_env(), seed=seed, **online_settings())
        agent.learn(ROWS)
        policy = agent.predict(vectors)[0]
        return {"value": value_of(env, policy), "seconds": time.perf_counter() - start}
    states, actions, rewards, ended, cut = write_log(env, chances, seed)
    if method == "behaviour cloning":
        policy = most_frequent(states, actions)
    else:
        log = Transitions(vectors[states], actions, rewards, ended, cut)
        given = METHODS[method]
        settings = SETTINGS | given
        settings["policy_kwargs"] = SETTINGS["policy_kwargs"] | given.get("policy_kwargs", {})
        start = time.perf_counter()
        agent = Wolpertinger.from_log(log, ActionTable(vectors), updates=UPDATES, seed=seed, **settings)
        policy = agent.predict(vectors)[0]
    logging = float(env.model.evaluate(chances).mean())
    return {"value": value_of(env, policy), "logging": logging, "seconds": time.perf_counter() - start}


def online_settings() -> dict[str, Any]:
    """The same without a log: one update after every step of all users, exploring at random."""
    freq = {"train_freq": 1, "gradient_steps": ROWS // USERS // UPDATES, "learning_starts": 20_000}
    return SETTINGS | freq | {"learner": "ddpg", "exploration": Exploration(noise=None, epsilon=EPSILON)}


def value_of(env: RecommenderVector, policy: npt.NDArray[np.int64]) -> float:
    return float(env.model.evaluate(policy).mean())


def write_log(env: RecommenderVector, chances: Chances, seed: int) -> tuple[npt.NDArray[Any], ...]:
    """States, actions, rewards, ends and cuts of `ROWS` recommendations, each user's in order."""
    rng, steps = np.random.default_rng(seed), ROWS // USERS
    cumulative = np.cumsum(chances, axis=1)
    rows: list[tuple[npt.NDArray[Any], ...]] = []
    env.reset(seed=seed)
    for step in range(steps):
        states = env.states.copy()
        drawn = (cumulative[states] < rng.random((USERS, 1))).sum(axis=1).clip(max=ITEMS - 1)
        _, rewards, ended, _, _ = env.step(drawn)
        rows.append((states, drawn, rewards, ended, ~ended & (step == steps - 1)))
    return tuple(np.stack(column, axis=1).reshape(-1) for column in zip(*rows, strict=True))


def most_frequent(states: npt.NDArray[np.int64], actions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Behaviour cloning with nothing to generalise: what each state's log took most often."""
    counts = np.zeros((ITEMS, ITEMS), np.int64)
    np.add.at(counts, (states, actions), 1)
    return counts.argmax(axis=1)


def uniform(env: RecommenderVector) -> Chances:
    return np.full((ITEMS, ITEMS), 1 / ITEMS)


def popularity(env: RecommenderVector) -> Chances:
    """In proportion to what an item earns on average."""
    earned = env.model.acceptance.column_means() * env.model.rewards
    return np.tile(earned / earned.sum(), (ITEMS, 1))


def half_trained(env: RecommenderVector) -> Chances:
    """An agent with the class's defaults, stopped early, that goes on exploring."""
    agent = Wolpertinger("MlpPolicy", make_env(256), seed=7)
    agent.learn(HALF_TRAINED)
    chances = np.full((ITEMS, ITEMS), EPSILON / ITEMS)
    chances[np.arange(ITEMS), agent.predict(env.task.actions.vectors)[0]] += 1 - EPSILON
    return chances


LOGS: dict[str, Callable[[RecommenderVector], Chances]] = {
    "uniform": uniform,
    "popularity": popularity,
    "half-trained agent": half_trained,
}


def table() -> str:
    """Values by log and method, one for each seed."""
    runs = (read_result(MODULE) or {}).get("runs", {})
    methods = ("behaviour cloning", *METHODS)
    rows = [
        f"| log by | logging policy | {' | '.join(methods)} | online |",
        f"| {' | '.join(['---'] * (len(methods) + 3))} |",
    ]
    for name in LOGS:
        cells = [_cell(runs, f"{name}/{methods[0]}", "logging", SEEDS[:1])]
        cells += [_cell(runs, f"{name}/{method}") for method in methods] + [_cell(runs, "-/online")]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(runs: dict[str, Any], key: str, what: str = "value", seeds: range = SEEDS) -> str:
    found = [runs[f"{key}/{seed}"][what] for seed in seeds if f"{key}/{seed}" in runs]
    return ", ".join(f"{value:.2f}" for value in found) or "missing"


TABLES = {("docs/logs.md", "from-log"): table}

if __name__ == "__main__":
    main()
