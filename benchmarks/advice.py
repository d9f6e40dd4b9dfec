"""Advice on k for five short runs: `python -m benchmarks.advice` trains those that are not there, and advises."""

import argparse
import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.measure import RESULTS, environment
from wolpertinger.cli import main as wolpertinger
from wolpertinger.runs.advise_report import read_advice, sentences, table

NEAREST = "recommender --preset nearest"
TRAINING = {
    "complete-journey": f"{NEAREST} --data complete-journey --median-best 0.5 --steps 300000 --threads 1",
    "generated": f"{NEAREST} --steps 300000 --threads 1",
    "puddle-world, n = 10": "puddle-world --plan 10 --steps 60000 --threads 1",
    "puddle-world, n = 20": "puddle-world --plan 20 --steps 50000 --threads 1",
    "cart-pole": "cart-pole --steps 120000 --threads 1",
}
EXAMPLE = "complete-journey"
WIDTH = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs") / "advice", help="(default: %(default)s)")
    runs = parser.parse_args().runs
    for name, options in TRAINING.items():
        folder = runs / file_name(name)
        if not (folder / "result.json").exists():
            run(["train", *options.split(), "--out", str(folder), "--overwrite"])
        if not (folder / "advise.json").exists():
            run(["advise-k", str(folder)])
        result = json.loads((folder / "result.json").read_text())
        about = {key: result[key] for key in ("last", "best", "steps_per_second", "threads")} | environment()
        found = {"command": f"wolpertinger train {options}", "training": about, "advice": read_advice(folder)}
        path = RESULTS / "advise" / f"{file_name(name)}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")


def run(arguments: list[str]) -> None:
    if code := wolpertinger(arguments):
        raise SystemExit(code)  # which has said why


def file_name(name: str) -> str:
    return name.replace(", n = ", "-")


def read(name: str) -> dict[str, Any] | None:
    path = RESULTS / "advise" / f"{file_name(name)}.json"
    return json.loads(path.read_text()) if path.exists() else None


def runs_table() -> str:
    """Each run: the fit, how far the lemma is from the critic, the advice and its check."""
    lines = [
        "| run | p | b | c | proto above centre | lemma off by, at most | as a share of the critic's gain | advised k "
        "| by the critic | return at it, share of the best | k that would hold | rank correlation |",
        "| --- |" + " ---: |" * 11,
    ]
    for name in TRAINING:
        found = read(name)
        lines.append(
            f"| {name} | missing |" if found is None else f"| {name} | {' | '.join(_cells(found['advice']))} |"
        )
    return "\n".join(lines)


def _cells(advice: dict[str, Any]) -> list[str]:
    study, check = advice["study"], advice["check"]
    relative, order = study["relative_error"], check["rank_correlation"]
    fit = [f"{study['p']:.3f}", *(f"{study[key]:.3g}" for key in ("b", "c", "proto_excess", "error"))]
    share = f"{check['share']:.1%}, {'holds' if check['holds'] else 'does not hold'}"
    advised = [f"{advice['k']:,}", f"{advice['critic_k']:,}", share, f"{check['holding']} of {check['tried']}"]
    return [*fit, "" if relative is None else f"{relative:,.1f}", *advised, "" if order is None else f"{order:+.2f}"]


def example() -> str:
    """What the command prints for one of the runs."""
    found = read(EXAMPLE)
    if found is None:
        return "missing"
    console = Console(file=io.StringIO(), width=WIDTH)
    console.print(table(found["advice"]))
    for line in sentences(found["advice"]):
        console.print(line, highlight=False)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    return "\n".join(["```", f"$ {found['command']} --out runs/cj", "$ wolpertinger advise-k runs/cj", *lines, "```"])


def lemma_table() -> str:
    """The example's values of the best of k: the lemma, the critic's without their order, the critic's."""
    found = read(EXAMPLE)
    if found is None:
        return "missing"
    study = found["advice"]["study"]
    lines = ["| k | Lemma 1 | k drawn at random | k nearest |", "| ---: | ---: | ---: | ---: |"]
    columns = (study[key] for key in ("k", "predicted", "shuffled", "measured"))
    lines += [f"| {k:,} | {a:.3f} | {b:.3f} | {c:.3f} |" for k, a, b, c in zip(*columns, strict=True)]
    return "\n".join(lines)


TABLES = {
    ("docs/choosing-k.md", "advice-example"): example,
    ("docs/choosing-k.md", "advice-lemma"): lemma_table,
    ("docs/choosing-k.md", "advice-runs"): runs_table,
}

if __name__ == "__main__":
    main()
