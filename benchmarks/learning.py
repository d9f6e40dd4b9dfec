"""How well the agent learns, and which settings it owes that to: `python -m benchmarks.learning [NAME...]`.

Each run writes one small file under benchmarks/results/learning/; finished ones are skipped, so a killed sweep goes on
where it was. The tables in README.md and docs/learning.md are rendered from those files by `--tables`.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import environment
from wolpertinger.experiments import make_config, train

RESULTS = Path(__file__).parent / "results" / "learning"
RUNS = Path("runs") / "learning"
ROOT = Path(__file__).parent.parent

TASKS: dict[str, dict[str, Any]] = {
    "generated": {"data": "generated"},
    "complete-journey": {"data": "complete-journey", "median_best": 0.5},
}
# What stands in the README: the defaults, three seeds, the task's full length.
CLAIMS: dict[str, dict[str, Any]] = {f"default/{task}": {"env": env, "seeds": (0, 1, 2)} for task, env in TASKS.items()}
ABLATION_STEPS = 200_000
# One change each against the defaults, shorter runs.
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
    "no interaction of state and action": {"changes": {"policy_kwargs": {"interaction": False}}},
    "neither of the two": {"changes": {"policy_kwargs": {"layer_norm": False, "interaction": False}}},
    "twin critics": {"changes": {"policy_kwargs": {"n_critics": 2}}},
    "Huber loss": {"changes": {"critic_loss": "huber"}},
    "no anchor (the paper's actor)": {"changes": {"anchor": 0.0}},
    "constant learning rate 1e-3": {"changes": {"learning_rate": 1e-3, "final_learning_rate": None}},
    "k = 1": {"k": 1},
    "k = 1 %": {"k": 0.01},
    "k = 10 %": {"k": 0.1},
    "the paper's preset": {"preset": "paper"},
}


def sweep() -> dict[str, dict[str, Any]]:
    """Every run by name: the arguments of `make_config`."""
    runs = {}
    for name, claim in CLAIMS.items():
        for seed in claim["seeds"]:
            runs[f"{name}/seed-{seed}"] = {"env": claim["env"], "seed": seed}
    for seed in (0,):
        for task, env in TASKS.items():
            for change, arguments in CHANGES.items():
                runs[f"ablation/{task}/{change}/seed-{seed}"] = {
                    "steps": ABLATION_STEPS,
                    **arguments,
                    "env": env,
                    "seed": seed,
                }
    return runs


def result_path(name: str) -> Path:
    return RESULTS / (name.replace("/", "--").replace(" ", "_").replace(",", "").replace("%", "percent") + ".json")


def run(name: str, arguments: dict[str, Any]) -> None:
    """Train one entry of the sweep and write its result file last, so that a file means a finished run."""
    folder = train(make_config("recommender", **arguments), RUNS / result_path(name).stem, overwrite=True)
    result = json.loads((folder / "result.json").read_text())
    content = {"name": name, "arguments": arguments, "config": json.loads((folder / "config.json").read_text())}
    kept = ("steps", "seconds", "steps_per_second", "baselines", "last", "best", "threads")
    content |= {key: result[key] for key in kept} | {"environment": environment()}
    RESULTS.mkdir(parents=True, exist_ok=True)
    result_path(name).write_text(json.dumps(content, indent=1) + "\n")


def results(prefix: str) -> list[dict[str, Any]]:
    """The result files of the runs whose name begins so, in the sweep's order; what is missing is left out."""
    paths = [result_path(name) for name in sweep() if name.startswith(prefix + "/")]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def claims_table() -> str:
    """The README's table."""
    rows = ["| task | agent, share of the optimum (seeds) | best fixed item | random | distinct items | seconds |"]
    rows.append("| --- | --- | --- | --- | --- | --- |")
    for name in CLAIMS:
        found = results(name)
        if not found:
            rows.append(f"| {name.split('/')[1]} | missing |")
            continue
        shares = [entry["last"]["share"] for entry in found]
        baselines = found[0]["baselines"]
        fixed, random = (baselines[key] / baselines["optimum"] for key in ("best fixed item", "random"))
        distinct = ", ".join(f"{entry['last']['distinct']:.0f}" for entry in found)
        seconds = statistics.median(entry["seconds"] for entry in found)
        rows.append(
            f"| {name.split('/')[1]} | **{statistics.mean(shares):.1%}** ({', '.join(f'{s:.1%}' for s in shares)}) "
            f"| {fixed:.1%} | {random:.1%} | {distinct} | {seconds:.0f} |"
        )
    return "\n".join(rows)


def ablation_table() -> str:
    """The table of docs/learning.md."""
    rows = [
        "| one change against the defaults | generated | seconds | Complete Journey | seconds |",
        "| --- | --- | --- | --- | --- |",
    ]
    for change in CHANGES:
        cells = []
        for task in TASKS:
            found = results(f"ablation/{task}/{change}")
            shares = ", ".join(f"{entry['last']['share']:.1%}" for entry in found) or "missing"
            seconds = f"{statistics.median(entry['seconds'] for entry in found):.0f}" if found else ""
            cells += [shares, seconds]
        rows.append(f"| {change} | {' | '.join(cells)} |")
    return "\n".join(rows)


TABLES = {("README.md", "claims"): claims_table, ("docs/learning.md", "ablation"): ablation_table}


def render(text: str, name: str, table: str) -> str:
    """Text with the part between the table's markers replaced."""
    begin, end = f"<!-- {name}: python -m benchmarks.learning --tables -->", f"<!-- /{name} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"


def write_tables() -> None:
    for (file, name), table in TABLES.items():
        path = ROOT / file
        path.write_text(render(path.read_text(), name, table()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="runs whose name begins so (default: all)")
    parser.add_argument("--threads", type=int, default=1, help="of torch; run two sweeps of one thread on two cores")
    parser.add_argument(
        "--tables", action="store_true", help="render the tables from the result files, and run nothing"
    )
    options = parser.parse_args()
    if options.tables:
        write_tables()
        return
    torch.set_num_threads(options.threads)
    for name, arguments in sweep().items():
        if name.startswith(tuple(options.names) or "") and not result_path(name).exists():
            print(f"== {name}", flush=True)
            run(name, arguments)


if __name__ == "__main__":
    main()
