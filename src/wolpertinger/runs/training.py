"""Train a task into a run folder: config, logs, checkpoints, learning curve, plot."""

import json
import logging
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from stable_baselines3.common.callbacks import CallbackList

from wolpertinger.agent import Wolpertinger, WorseThanRandom
from wolpertinger.atomic import remove_litter, write_bytes
from wolpertinger.runs import presets
from wolpertinger.runs.build import make_agent, make_env, make_scorer
from wolpertinger.runs.checkpointing import EVERY_SECONDS, Checkpointing
from wolpertinger.runs.config import RunConfig, write_config
from wolpertinger.runs.curve import LearningCurve
from wolpertinger.runs.logs import open_logs
from wolpertinger.runs.plot import plot_curve
from wolpertinger.runs.progress import NoProgress
from wolpertinger.runs.run_folder import begin_folder, check_folder, lock
from wolpertinger.runs.signals import Stop

SELECTION_EPISODES = 32  # where scores are by episodes: those that choose the best checkpoint ...
SELECTION_SEED = 20_000  # ... are other ones than `wolpertinger evaluate` plays
logger = logging.getLogger("wolpertinger")


def train(
    config: RunConfig,
    folder: Path,
    *,
    overwrite: bool = False,
    device: str = "auto",
    quiet: bool = False,
    checkpoint_seconds: float | None = EVERY_SECONDS,
    stop: Stop | None = None,
    agent_class: type[Wolpertinger] = Wolpertinger,
) -> Path:
    """Train and leave everything in `folder`; a folder that holds a run already is only replaced if told to.

    :param checkpoint_seconds: from one checkpoint to the next, which `resume` goes on from; None: none.
    :param stop: asks the run to stop, as soon as it is set.
    :param agent_class: of the agent; `distributed.train` gives one whose transitions come from workers.
    """
    check_folder(folder, overwrite)
    agent = make_agent(config, make_env(config), device, agent_class)
    scorer = make_scorer(config, SELECTION_EPISODES, SELECTION_SEED)  # before a run is replaced: it may fail
    begin_folder(folder.resolve())
    with lock(folder):
        write_config(folder, config)
        task = presets.TASKS[config.task]
        curve = LearningCurve(folder, scorer, task, steps=config.steps, seconds=config.seconds, quiet=quiet)
        stop = stop or Stop()
        return carry_out(config, agent, curve, Checkpointing(folder, curve, every=checkpoint_seconds, stop=stop))


def carry_out(config: RunConfig, agent: Wolpertinger, curve: LearningCurve, saving: Checkpointing) -> Path:
    """Train to the end, from the beginning or from where the agent is, and write what the run came to."""
    folder, is_new = curve.folder, agent._resume_from is None
    for place in (folder, folder / "checkpoints"):
        remove_litter(place, nobody_writes=True)  # but this process: the folder is locked
    agent.set_logger(open_logs(folder / "logs"))
    saving.stop.waits = True
    say = logger.warning if isinstance(curve.progress, NoProgress) else curve.progress.say
    watch = WorseThanRandom(say, level=curve.scorer.baselines["random"])
    # The run is saved before its last evaluation, which can be done again.
    callbacks = CallbackList([saving, curve, watch])
    steps = config.steps if is_new else max(0, config.steps - agent.num_timesteps)
    try:
        agent.learn(steps, callbacks, _log_interval(config), reset_num_timesteps=is_new)
    except Exception as error:
        saving.save_after(error)
        raise
    finally:
        curve.progress.stop()  # or an interrupted run leaves the terminal without its cursor
        agent.logger.close()
    seconds = curve.trained
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


def _log_interval(config: RunConfig) -> int:
    """Episodes between two lines of the log, for about 200 lines of a run."""
    task = presets.find_preset(config.task, config.preset)
    steps = config.steps if config.seconds is None else min(config.steps, task.steps)  # the seconds may come first
    return max(1, steps // (200 * task.episode_steps))


def _write_json(path: Path, content: Any) -> None:
    write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())
