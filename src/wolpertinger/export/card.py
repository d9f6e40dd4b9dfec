"""A model card as Hugging Face shows it: README.md beside the networks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CARD = """---
library_name: wolpertinger
pipeline_tag: reinforcement-learning
tags:
- reinforcement-learning
- wolpertinger
- onnx
{index}---

# {name}

A policy over {actions:,} discrete actions, each with a vector of {dim} numbers: {picks}.
It was trained with wolpertinger {wolpertinger}. Its networks are ONNX ({networks}), with all scaling inside.

## Use

```sh
pip install -r requirements.txt
```

```py
import numpy as np
from policy import Policy

states = {states}
print(Policy().pick(states))
```

## Training

{training}

## Limits

It has seen the states and actions of its training, and its values are estimates by them. Nobody has looked at it for
fairness or safety.
"""
SOURCES = {
    "nearest": "the {k} actions nearest to the actor's proto-action",
    "critic": "the {k} actions that the critic's keys promise most of",
    "all": "all actions",
}


def write_card(folder: Path, name: str, told: Mapping[str, Any], run: Path | None) -> None:
    """Write README.md by what `policy.json` says, and by the run's own files where there is a run."""
    found = {} if run is None else _read(run / "result.json")
    config = {} if run is None else _read(run / "config.json")
    sources = " and ".join(SOURCES[source].format(k=told["k"]) for source in told["sources"])
    arrays = {own: f"np.zeros({(1, *shape)}, np.{kind})" for own, (kind, *shape) in told["inputs"].items()}
    whole = ", ".join(f'"{own}": {array}' for own, array in arrays.items())
    facts = {
        "index": _index(name, config.get("task"), found),
        "name": name,
        "picks": f"of {sources}, it picks the one that the critic values most",
        "states": next(iter(arrays.values())) if len(arrays) == 1 else f"{{{whole}}}",
        "training": _training(config, found),
    }
    networks = ", ".join(f"`{own}.onnx`" for own in told["networks"])
    (folder / "README.md").write_text(CARD.format(**{**told, "networks": networks}, **facts))


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _index(name: str, task: str | None, found: Mapping[str, Any]) -> str:
    """The result as Hugging Face's lists of results read it, which is YAML; JSON is a part of that."""
    score = found.get("best", {}).get("return")
    if score is None or task is None:
        return ""
    metric = {"type": "mean_reward", "name": "mean return", "value": score}
    result = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": task, "type": task},
        "metrics": [metric],
    }
    return f"model-index: {json.dumps([{'name': name, 'results': [result]}])}\n"


def _training(config: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    if not found:
        return "The file of the agent says nothing of its training."
    rows = {name: config[name] for name in ("task", "preset", "seed") if config.get(name) is not None}
    rows |= {"steps": f"{found['steps']:,}"} if "steps" in found else {}
    reached = ((f"{which} checkpoint", found.get(which, {}).get("return")) for which in ("best", "last"))
    for which, value in (*reached, *found.get("baselines", {}).items()):
        rows |= {} if value is None else {f"return, {which}": round(value, 4)}
    return "\n".join(["| | |", "| --- | --- |", *(f"| {what} | {value} |" for what, value in rows.items())])
