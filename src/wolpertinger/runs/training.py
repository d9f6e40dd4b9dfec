"""Train a task into a run folder: config, logs, checkpoints, learning curve, plot."""

import json
import logging
import platform
import shutil
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from stable_baselines3.common.logger import configure

from wolpertinger.agent import Wolpertinger, WorseThanRandom
from wolpertinger.runs import presets
from wolpertinger.runs.build import make_agent, make_env, make_scorer
from wolpertinger.runs.config import RunConfig, write_config
from wolpertinger.runs.curve import LearningCurve
from wolpertinger.runs.plot import plot_curve

SELECTION_EPISODES = 32  # where scores are by episodes: those that choose the best checkpoint ...
SELECTION_SEED = 20_000  # ... are other ones than `wolpertinger evaluate` plays
logger = logging.getLogger("wolpertinger")
RUN_FILES = {"config.json", "logs", "checkpoints", "curve.csv", "curve.png", "result.json", "watch.mp4"}


def train(
    config: RunConfig, folder: Path, *, overwrite: bool = False, device: str = "auto", quiet: bool = False
) -> Path:
    """Train and leave everything in `folder`; a folder that holds a run already is only replaced if told to."""
    _check_folder(folder, overwrite)
    env = make_env(config)
    agent = make_agent(config, env, device)
    scorer = make_scorer(config, SELECTION_EPISODES, SELECTION_SEED)  # before a run is replaced: it may fail
    if folder.exists():  # empty, or a run to be replaced
        shutil.rmtree(folder)
    (folder / "checkpoints").mkdir(parents=True)
    write_config(folder, config)
    agent.set_logger(configure(str(folder / "logs"), ["csv", "tensorboard"]))
    task = presets.TASKS[config.task]
    curve = LearningCurve(folder, scorer, task, steps=config.steps, seconds=config.seconds, quiet=quiet)
    start = perf_counter()
    try:
        watch = WorseThanRandom(logger.warning if quiet else curve.progress.say, level=scorer.baselines["random"])
        agent.learn(config.steps, callback=[curve, watch], log_interval=_log_interval(config))
    finally:
        curve.progress.stop()  # or an interrupted run leaves the terminal without its cursor
        agent.logger.close()
    seconds = perf_counter() - start - curve.evaluating - curve.tuning
    agent.save(folder / "checkpoints" / "last.zip")
    stopped_by = "seconds" if agent.num_timesteps < config.steps else "steps"
    _write_json(folder / "result.json", {"stopped_by": stopped_by, **_result(agent, curve, seconds)})
    plot_curve(folder)
    return folder


def _result(agent: Wolpertinger, curve: LearningCurve, seconds: float) -> dict[str, Any]:
    """What training came to, what its time went into, and with which versions it was made."""
    return {
        "steps": agent.num_timesteps,
        "seconds": seconds,
        "evaluating_seconds": curve.evaluating,
        "tuning_seconds": curve.tuning,
        "warm_up_steps": curve.warm[0],
        "steps_per_second": curve.rate(agent.num_timesteps, seconds),
        "time": curve.time,
        "lookup": [asdict(health) for health in getattr(agent.actions, "health", [])],
        "baselines": curve.scorer.baselines,
        "last": curve.last,
        "best": curve.best,
        "threads": torch.get_num_threads(),
        "versions": {name: version(name) for name in ("wolpertinger", "torch", "stable-baselines3", "gymnasium")},
        "python": platform.python_version(),
    }


def _check_folder(folder: Path, overwrite: bool) -> None:
    """Never write into, or remove, a folder that holds anything but a run."""
    if not folder.exists():
        return
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {folder.name}
    if strange := sorted(names - RUN_FILES):
        raise FileExistsError(f"{folder} holds what is not of a run ({', '.join(strange[:3])}): give another folder")
    if "config.json" in names and not overwrite:
        raise FileExistsError(f"{folder} holds a run already: give another folder, or --overwrite")


def _log_interval(config: RunConfig) -> int:
    """Episodes between two lines of the log, for about 200 lines of a run."""
    task = presets.find_preset(config.task, config.preset)
    steps = config.steps if config.seconds is None else min(config.steps, task.steps)  # the seconds may come first
    return max(1, steps // (200 * task.episode_steps))


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
