"""One run, from its settings to what its result file holds."""

import json
import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import commit, cpu_name
from reproduction import lemma, lemma_check, speed
from reproduction.plan import Run
from wolpertinger.runs import evaluate, train
from wolpertinger.runs.config import RunConfig
from wolpertinger.runs.evaluation import load_agent
from wolpertinger.runs.plot import read_curve
from wolpertinger.runs.presets import TASKS

KEPT = (
    *("steps", "seconds", "evaluating_seconds", "tuning_seconds", "steps_per_second", "stopped_by", "time", "lookup"),
    *("baselines", "best", "last"),
)
ROUGH = 60.0  # seconds of training
FINAL_EPISODES = 32  # a hundred, of 500 steps with 5,000 candidates each, take as long as the training
STUDY_ENVS, STUDY_SEED = 64, 30_000
PACKAGES = ("wolpertinger", "torch", "stable-baselines3", "gymnasium", "numpy", "faiss-cpu")


def perform(run: Run, folder: Path) -> dict[str, Any]:
    """Do a run; `folder` is where a learning one leaves its checkpoints and logs."""
    measured = {"learning": _learn, "speed": _time, "lemma": _check}[run.variant.kind](run, folder)
    return {**measured, "made": made()}


def made() -> dict[str, Any]:
    """When, of which code, with what and on what, and how busy it was."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "machine": {"cores": os.cpu_count(), "threads": torch.get_num_threads(), "cpu": cpu_name()},
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def _learn(run: Run, folder: Path) -> dict[str, Any]:
    config = run.config()
    train(config, folder, quiet=True, checkpoint_seconds=None)
    result = json.loads((folder / "result.json").read_text())
    curve = read_curve(folder)
    return {
        **{name: result[name] for name in KEPT},
        "curve": {name: curve[name] for name in ("steps", "seconds", "return", "share", "distinct") if name in curve},
        "final": _final(config, folder, result),
        **({"lemma": _study(config, folder)} if run.variant.studied else {}),
    }


def _final(config: RunConfig, folder: Path, result: dict[str, Any]) -> dict[str, Any]:
    """What the best checkpoint is worth: exactly where the curve is exact, else in episodes that did not choose it.

    Not so in a rough run, which would take longer to evaluate than to train.
    """
    if config.task == "recommender" or (config.seconds or 0) < ROUGH:
        return {name: result["best"][name] for name in ("return", "share", "distinct")}
    found = evaluate(folder, checkpoint="best", episodes=min(FINAL_EPISODES, TASKS[config.task].episodes))
    return {"return": found.score.value, "share": found.score.share, "distinct": found.score.distinct}


def _study(config: RunConfig, folder: Path) -> dict[str, Any]:
    """Lemma 1 beside the candidates of the best checkpoint, in states that it visits."""
    agent, env = load_agent(folder, config, "best", STUDY_ENVS)
    steps = TASKS[config.task].episode_steps
    return asdict(lemma.study(agent, lemma.visited_observations(agent, env, steps=steps, seed=STUDY_SEED)))


def _time(run: Run, _: Path) -> dict[str, Any]:
    return speed.measure(run.config())


def _check(run: Run, _: Path) -> dict[str, Any]:
    return lemma_check.check(run.seed)
