"""The critic that searches all actions, beside the paper's agent: `python -m benchmarks.learning.search [NAME...]`.

Both are given the same time. Runs and result files are as those of benchmarks.learning; docs/search.md has the tables.
"""

import json
import statistics
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks.learning.large_catalogue import LARGE_CATALOGUE
from benchmarks.learning.runs import result_path, run_missing
from wolpertinger.runs import make_config
from wolpertinger.runs.presets import merge

SEEDS = range(5)
ENDLESS = 10**9  # steps: seconds end these runs
SEARCH = "critic's search"
PAPER = "paper's candidates"
TASKS: dict[str, dict[str, Any]] = {
    "generated, 835 items": {"env": {"data": "generated", "items": 835}, "seconds": 120.0, "wanted": 0.80},
    "Complete Journey, 835 items": {
        "env": {"data": "complete-journey", "items": 835},
        "seconds": 240.0,
        "wanted": 0.88,
        SEARCH: {"preset": "few-items"},
    },
    "Complete Journey, 13,138 items": {
        "env": {"data": "complete-journey", "items": 13_138},
        "seconds": 900.0,
        "wanted": 0.65,
        SEARCH: {"preset": "few-items"},
        PAPER: {"changes": LARGE_CATALOGUE},
    },
}
AGENTS: dict[str, dict[str, Any]] = {SEARCH: {}, PAPER: {"preset": "nearest", "k": 0.05}}
LEAST = 0.9  # of the median seed, that every seed is to reach

# One change each against what the table above is made with, and against the demo, which swings most; one seed, less
# time.
DEMO = "Complete Journey, 835 items, scaled"
ABLATED = ("generated, 835 items", "Complete Journey, 835 items", DEMO)
ABLATION_SECONDS = 40.0
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "no memory of states": {"critic": {"state_embedding": 0}},
    "no memory of actions": {"critic": {"action_embedding": 0}},
    "no memory at all": {"critic": {"state_embedding": 0, "action_embedding": 0}},
    "a memory of actions": {"critic": {"action_embedding": 2**12}},
    "width 8": {"critic": {"width": 8}},
    "width 64": {"critic": {"width": 64}},
    "no layer normalisation": {"policy_kwargs": {"layer_norm": False}},
    "twin critics": {"policy_kwargs": {"n_critics": 2}},
    "constant learning rate": {"final_learning_rate": None},
    "predicts by the target critic": {"policy_kwargs": {"predict_by": "target"}},
    "constant learning rate, predicts by the target critic": {
        "final_learning_rate": None,
        "policy_kwargs": {"predict_by": "target"},
    },
    "learning rate 1e-2": {"learning_rate": 1e-2},
    "learning rate 5e-4": {"learning_rate": 5e-4},
    "memories of strength 0.5": {"critic": {"embedding_scale": 0.5}},
    "targets ten times slower": {"tau": 1e-3},
    "targets at once": {"tau": 1.0},
    "keys renewed every 100 updates": {"candidates": {"refresh_every": 100}},
    "the best of 8 by today's critics": {"k": 8},
    "256 users, batch 256": {"n_envs": 256, "batch_size": 256},
    "k nearest of the actor as well": {"candidates": {"kind": "both"}, "k": 8, "exploration": {"noise": "gaussian"}},
}


def runs() -> dict[str, dict[str, Any]]:
    """Every run by name: the arguments of `make_config`."""
    found: dict[str, dict[str, Any]] = {}
    for seed in SEEDS:
        for task in TASKS:
            for agent in AGENTS:
                found[f"{name_of(task, agent)}/seed-{seed}"] = {**arguments(task, agent), "seed": seed}
    for task in ABLATED:
        done: list[Any] = []
        for change, settings in CHANGES.items():
            given = ablated(task)
            own = {name: value for name, value in settings.items() if name in ("k", "n_envs")}
            changes = {name: value for name, value in settings.items() if name not in own}
            given |= {"changes": merge(given["changes"], changes), **own}
            name, given = f"ablation-search/{task}/{change}/seed-0", {**given, "seed": 0}
            if make_config("recommender", **given) not in done:  # a change that changes something
                found[name] = given
                done.append(make_config("recommender", **given))
    return found


def name_of(task: str, agent: str) -> str:
    return f"search/{task}/{agent}"


def arguments(task: str, agent: str) -> dict[str, Any]:
    about = TASKS[task]
    settings = {"env": about["env"], "seconds": about["seconds"], "steps": ENDLESS, "changes": {}}
    return settings | AGENTS[agent] | about.get(agent, {})


def ablated(task: str) -> dict[str, Any]:
    """The arguments that one change each is made to."""
    if task == DEMO:
        env = {"data": "complete-journey", "items": 835, "median_best": 0.5}
        return {"env": env, "seconds": ABLATION_SECONDS, "steps": ENDLESS, "changes": {}}
    return arguments(task, SEARCH) | {"seconds": ABLATION_SECONDS}


def results(prefix: str) -> list[dict[str, Any]]:
    """Those of the runs whose name begins so; what is missing is left out."""
    found = (result(name) for name in runs() if name.startswith(prefix + "/"))
    return [entry for entry in found if entry is not None]


def result(name: str) -> dict[str, Any] | None:
    """A run's result; None if there is none, or one of other settings than the run has now."""
    path = result_path(name)
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    config = asdict(make_config("recommender", **runs()[name]))
    return found if found["config"] == json.loads(json.dumps(config)) else None


def comparison_table() -> str:
    """Both agents on all tasks, and whether what was wanted is there."""
    rows = [
        "| task | seconds | agent | share of the optimum, median (seeds) | least seed / median | distinct items "
        "| transitions | wanted |",
        "| --- | ---: | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for task, about in TASKS.items():
        found = {agent: results(name_of(task, agent)) for agent in AGENTS}
        for agent, entries in found.items():
            cells = comparison_cells(entries) if len(entries) == len(SEEDS) else [f"missing: has {len(entries)} seeds"]
            wanted = f"{about['wanted']:.0%}: {verdict(about['wanted'], found)}" if agent == SEARCH else ""
            cells = [task, f"{about['seconds']:.0f}", agent, *cells, *[""] * (4 - len(cells)), wanted]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def comparison_cells(entries: list[dict[str, Any]]) -> list[str]:
    shares = [entry["last"]["share"] for entry in entries]
    median = statistics.median(shares)
    distinct, steps = (
        statistics.median(values)
        for values in ((entry["last"]["distinct"] for entry in entries), (entry["steps"] for entry in entries))
    )
    seeds = ", ".join(f"{share:.1%}" for share in shares)
    return [f"**{median:.1%}** ({seeds})", f"{min(shares) / median:.2f}", f"{distinct:.0f}", f"{steps:,.0f}"]


def verdict(wanted: float, found: dict[str, list[dict[str, Any]]]) -> str:
    """Holds if the median seed is as good as wanted, none far below it, and all above all of the paper's."""
    if any(len(entries) < len(SEEDS) for entries in found.values()):
        return "not decided"
    ours, theirs = ([entry["last"]["share"] for entry in found[agent]] for agent in (SEARCH, PAPER))
    median = statistics.median(ours)
    held = median >= wanted and min(ours) >= LEAST * median and min(ours) > max(theirs)
    return "holds" if held else "missed"


def ablation_table() -> str:
    """What each choice is worth, and how much the curve swings without it."""
    heads = " | ".join(f"{task} | deepest fall | transitions" for task in ABLATED)
    rows = [f"| one change | {heads} |", "| --- |" + " ---: |" * (3 * len(ABLATED))]
    for change in CHANGES:
        cells = []
        for task in ABLATED:
            name = f"ablation-search/{task}/{change}/seed-0"
            entry = result(name) if name in runs() else None
            nothing = ["missing" if name in runs() else "no change", "", ""]
            cells += nothing if entry is None else ablation_cells(entry)
        rows.append(f"| {change} | {' | '.join(cells)} |")
    return "\n".join(rows)


def ablation_cells(entry: dict[str, Any]) -> list[str]:
    optimum = entry["baselines"]["optimum"]
    fall = deepest_fall([value / optimum for value in entry["curve"]["return"]])
    return [f"{entry['last']['share']:.1%}", f"{100 * fall:.1f}", f"{entry['steps']:,}"]


def deepest_fall(curve: list[float]) -> float:
    """How far a curve comes down at most from what it had reached before."""
    best, fall = curve[0], 0.0
    for value in curve:
        best = max(best, value)
        fall = max(fall, best - value)
    return fall


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("docs/search.md", "comparison"): comparison_table,
    ("docs/search.md", "search-ablation"): ablation_table,
}


def main() -> None:
    run_missing(runs(), "python -m benchmarks.learning.search", __doc__, is_done=lambda name: result(name) is not None)


if __name__ == "__main__":
    main()
