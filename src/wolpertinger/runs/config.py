"""All that a run depends on: a task's preset with what the user changes."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wolpertinger.envs.puddle_map import load_map
from wolpertinger.index.tune import check_recall
from wolpertinger.runs import presets


@dataclass(frozen=True)
class RunConfig:
    """All that a run depends on; written to the run folder, and enough to repeat it."""

    task: str
    env: dict[str, Any]
    n_envs: int
    steps: int
    seed: int
    k: int | float
    preset: str = "default"
    agent: dict[str, Any] = field(default_factory=dict)
    """The agent's settings, in full."""
    recall: float | str | None = None
    """Promised recall of the lookup; None looks up exactly."""
    table: bool = False
    """Look actions up in a table of their vectors, as the paper does, even where their set has a lookup of its own."""
    build_seconds: float | None = None
    """The most to spend on building indexes in one tuning; None as `ActionTable` has it."""
    seconds: float | None = None
    """Training ends after so many, evaluations and tunings of the lookup not counted, if it has not made its steps."""


def make_config(
    task: str,
    *,
    env: dict[str, Any] | None = None,
    n_envs: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    k: int | float | None = None,
    preset: str = "default",
    changes: dict[str, Any] | None = None,
    recall: float | str | None = None,
    table: bool = False,
    build_seconds: float | None = None,
    seconds: float | None = None,
) -> RunConfig:
    """A task's settings with what the user changes: `env` its options, `changes` the agent's settings."""
    if task not in presets.TASKS:
        raise ValueError(f"task={task!r}: give one of {', '.join(presets.TASKS)}")
    chosen = presets.find_preset(task, preset)
    if unknown := (env or {}).keys() - chosen.env.keys():
        raise ValueError(f"unknown options of {task}: {', '.join(unknown)}; there are {', '.join(chosen.env)}")
    for name, value in (("steps", steps), ("n_envs", n_envs)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value}: give at least 1")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds={seconds}: give more than 0")
    options = {name: option.default for name, option in chosen.env.items()} | (env or {})
    if options.get("map") is not None:  # the map itself: its file may have changed when the run is evaluated
        options["map"] = load_map(options["map"]).to_text()
    agent = presets.merge(chosen.agent, changes or {})
    if (recall is not None or table) and agent.get("candidates") == "critic":
        given = "table=True" if recall is None else f"recall={recall!r}"
        raise ValueError(
            f'{given}: with candidates="critic" nothing is looked up; leave it out, or use preset="nearest" (--preset '
            "nearest on the command line)"
        )
    return RunConfig(
        task=task,
        env={name: value for name, value in options.items() if value is not None},
        n_envs=chosen.n_envs if n_envs is None else n_envs,
        steps=chosen.steps if steps is None else steps,
        seed=seed,
        k=chosen.k if k is None else k,
        preset=preset,
        agent=agent,
        recall=recall if recall is None else check_recall(recall),
        table=table,
        build_seconds=build_seconds,
        seconds=seconds,
    )


def read_config(folder: Path) -> RunConfig:
    """The config of a run folder."""
    path = folder / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} is no run folder: it holds no config.json (wolpertinger train makes one)")
    return RunConfig(**json.loads(path.read_text()))
