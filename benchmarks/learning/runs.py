"""How well the agent learns, and which settings it owes that to: `python -m benchmarks.learning [NAME...]`.

Each run writes one small file under benchmarks/results/learning/; finished ones are skipped, so a killed sweep goes on
where it was. The tables in README.md and docs/learning.md are rendered from those files by benchmarks.tables.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import RESULTS as ALL_RESULTS
from benchmarks.measure import environment
from wolpertinger.runs import Evaluation, evaluate, make_config, train
from wolpertinger.runs.config import read_config
from wolpertinger.runs.plot import read_curve

RESULTS = ALL_RESULTS / "learning"
RUNS = Path("runs") / "learning"

TASKS: dict[str, dict[str, Any]] = {
    "generated": {"data": "generated"},
    "complete-journey": {"data": "complete-journey", "median_best": 0.5},
}
# What stands in the README: the defaults, three seeds, the task's full length.
CLAIMS: dict[str, dict[str, Any]] = {f"default/{task}": {"env": env, "seeds": (0, 1, 2)} for task, env in TASKS.items()}
ABLATION_STEPS = 200_000
# One change each against our settings of the paper's form, shorter runs.
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "1 environment, batch 64, 10,000 steps": {
        "n_envs": 1,
        "steps": 10_000,
        "changes": {"batch_size": 64, "learning_starts": 1_000},
    },
    "64 environments, batch 64": {"n_envs": 64, "changes": {"batch_size": 64}},
    "64 environments, batch 256": {"n_envs": 64},
    "guided exploration only": {"changes": {"exploration": {"guided": 1.0}}},
    "half of the exploration uniform": {"changes": {"exploration": {"guided": 0.5}}},
    "uniform exploration only": {"changes": {"exploration": {"guided": 0.0}}},
    "no layer normalisation": {"changes": {"policy_kwargs": {"layer_norm": False}}},
    "no interaction of state and action": {"changes": {"critic": {"interaction": False}}},
    "neither of the two": {"changes": {"policy_kwargs": {"layer_norm": False}, "critic": {"interaction": False}}},
    "twin critics": {"changes": {"policy_kwargs": {"n_critics": 2}}},
    "Huber loss": {"changes": {"learner": {"critic_loss": "huber"}}},
    "no anchor (the paper's actor)": {"changes": {"learner": {"anchor": 0.0}}},
    "constant learning rate 1e-3": {"changes": {"learning_rate": 1e-3, "final_learning_rate": None}},
    "k = 1": {"k": 1},
    "k = 1 %": {"k": 0.01},
    "k = 10 %": {"k": 0.1},
    "the paper's preset": {"preset": "paper"},
}


# The paper's other two tasks at full size, and the plan lengths of its figure: the defaults, k = 1.
OTHERS: dict[str, dict[str, Any]] = {
    "cart-pole": {"task": "cart-pole", "seeds": (0, 1, 2)},
    "puddle-world, n = 20": {"task": "puddle-world", "env": {"plan": 20}, "seeds": (0, 1, 2)},
    **{f"puddle-world, n = {n}": {"task": "puddle-world", "env": {"plan": n}, "seeds": (0,)} for n in (10, 5, 3, 1)},
    "control, Pendulum-v1": {"task": "control", "seeds": (0, 1, 2)},
}
# One change each against the defaults of the cart-pole and of Puddle World with n = 20, shorter runs, one seed.
OTHER_STEPS = {"cart-pole": 300_000, "puddle-world": 100_000}
OTHER_CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    "cart-pole": {
        "as it is": {},
        "noise falls over time, not over environments": {"changes": {"exploration": {"ladder": False, "decay": 0.5}}},
        "Gaussian noise": {"changes": {"exploration": {"noise": "gaussian"}}},
        "returns of 1 step": {"changes": {"n_steps": 1}},
        "the paper's preset": {"preset": "paper"},
    },
    "puddle-world": {
        "as it is": {},
        "gradient at the proto-action": {"changes": {"learner": {"gradient_at": "proto"}}},
        "tanh": {"changes": {"policy_kwargs": {"bound": "tanh"}}},
        "tanh, gradient at the proto-action": {
            "changes": {"learner": {"gradient_at": "proto"}, "policy_kwargs": {"bound": "tanh"}}
        },
        "no interaction of state and action": {"changes": {"critic": {"interaction": False}}},
        "no layer normalisation": {"changes": {"policy_kwargs": {"layer_norm": False}}},
        "the same noise in all environments": {"changes": {"exploration": {"sigma": 0.3, "ladder": False}}},
        "the paper's preset": {"preset": "paper"},
    },
}


def sweep() -> dict[str, dict[str, Any]]:
    """Every run by name: the arguments of `make_config`."""
    runs: dict[str, dict[str, Any]] = {}
    for name, claim in CLAIMS.items():
        for seed in claim["seeds"]:
            runs[f"{name}/seed-{seed}"] = {"env": claim["env"], "seed": seed}
    for name, claim in OTHERS.items():
        arguments = {key: value for key, value in claim.items() if key != "seeds"}
        for seed in claim["seeds"]:
            runs[f"default/{name}/seed-{seed}"] = {**arguments, "seed": seed}
    for task, env in TASKS.items():
        for change, arguments in CHANGES.items():
            nearest = {"preset": "nearest", "steps": ABLATION_STEPS}
            runs[f"ablation/{task}/{change}/seed-0"] = {**nearest, **arguments, "env": env, "seed": 0}
    for task, changes in OTHER_CHANGES.items():
        for change, arguments in changes.items():
            runs[f"ablation/{task}/{change}/seed-0"] = {
                "task": task,
                "steps": OTHER_STEPS[task],
                **arguments,
                "seed": 0,
            }
    return runs


def result_path(name: str) -> Path:
    """A run's result file: its name in lower case with hyphens for all but letters, digits and points.

    "ablation/generated/k = 1 %/seed-0" has ablation--generated--k-1-percent--seed-0.json.
    """
    parts = name.lower().replace("%", "percent").translate(str.maketrans("", "", "',()")).split("/")
    return RESULTS / ("--".join(re.sub(r"[^a-z0-9.]+", "-", part).strip("-") for part in parts) + ".json")


def run(name: str, arguments: dict[str, Any]) -> None:
    """Train one entry of the sweep, unless its run folder is there; the result file is written when all is done."""
    config = make_config(**{"task": "recommender", **arguments})
    folder = RUNS / result_path(name).stem
    if not (folder / "result.json").exists() or read_config(folder) != config:
        train(config, folder, overwrite=True)
    result = json.loads((folder / "result.json").read_text())
    best, last = (evaluate(folder, checkpoint=checkpoint) for checkpoint in ("best", "last"))
    content = {"name": name, "arguments": arguments, "config": asdict(config)}
    kept = ("steps", "seconds", "evaluating_seconds", "steps_per_second", "threads")
    content |= {key: result[key] for key in kept} | {"baselines": best.baselines, "environment": environment()}
    for key in ("last", "best"):  # shares by the baselines of today, which a reference may have changed since
        content[key] = {**result[key], "share": best.score.best and result[key]["return"] / best.score.best}
    # On other episodes than those that chose the best checkpoint.
    content["evaluation"] = {found.checkpoint: _numbers(found) for found in (best, last)}
    curve = read_curve(folder)
    content["curve"] = {name: curve[name] for name in ("steps", "seconds", "return")}
    RESULTS.mkdir(parents=True, exist_ok=True)
    result_path(name).write_text(json.dumps(content, indent=1) + "\n")


def _numbers(found: Evaluation) -> dict[str, Any]:
    return {"return": found.score.value, "share": found.score.share, **vars(found.sampled)}


def results(prefix: str) -> list[dict[str, Any]]:
    """The result files of the runs whose name begins so, in the sweep's order; what is missing is left out."""
    paths = [result_path(name) for name in sweep() if name.startswith(prefix + "/")]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def run_missing(
    runs: Mapping[str, dict[str, Any]],
    prog: str,
    description: str | None,
    is_done: Callable[[str], bool] = lambda name: result_path(name).exists(),
) -> None:
    """The command line of runs by name: do those that are not done."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("names", nargs="*", help="runs whose name begins so (default: all)")
    parser.add_argument("--threads", type=int, default=1, help="of torch; run two sweeps of one thread on two cores")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, arguments in runs.items():
        if name.startswith(tuple(options.names) or "") and not is_done(name):
            print(f"== {name}", flush=True)
            run(name, arguments)


def main() -> None:
    run_missing(sweep(), "python -m benchmarks.learning", __doc__)
