"""Train from a log into a run folder: config, logs, checkpoint; no environment."""

import json
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from wolpertinger.actions import ActionIds, ActionSet, ActionTable
from wolpertinger.agent import Wolpertinger
from wolpertinger.atomic import write_bytes
from wolpertinger.data import Transitions
from wolpertinger.runs.build import agent_arguments
from wolpertinger.runs.config import LOG_TASK, VERSION
from wolpertinger.runs.logs import open_logs
from wolpertinger.runs.progress import BarProgress
from wolpertinger.runs.run_folder import begin_folder, check_folder, drop_replaced, lock
from wolpertinger.settings import MAX_SEED, check_flag, check_kind, check_number


@dataclass(frozen=True, kw_only=True)
class LogRunConfig:
    """All that a run from a log depends on, enough to repeat it."""

    log: str
    """A Parquet file, or a folder of them."""
    actions: str | int | None = None
    """A .npy file of vectors, a number of actions without vectors; None: as many as the log's largest id says."""
    columns: dict[str, str] = field(default_factory=dict)
    updates: int | None = None
    unlogged: bool = False
    seed: int = 0
    agent: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_kind("log", self.log, str, "the path of a Parquet file, or of a folder of them")
        check_kind("actions", self.actions, str | int | None, "a .npy file of vectors, or how many there are")
        check_kind("columns", self.columns, dict, "names of columns")
        check_number("updates", self.updates, least=1, whole=True, optional=True)
        check_flag("unlogged", self.unlogged)
        check_number("seed", self.seed, most=MAX_SEED, whole=True)
        _arguments(self.agent)


def train_from_log(
    config: LogRunConfig, folder: Path, *, overwrite: bool = False, device: str = "auto", quiet: bool = False
) -> Path:
    """Train and leave everything in `folder`; a folder that holds a run already is only replaced if told to."""
    check_folder(folder, overwrite)
    log = Transitions.read(config.log, config.columns)
    actions, start = make_actions(config.actions, log), perf_counter()
    log.check(actions)
    begin_folder(folder.resolve())
    with lock(folder):
        text = json.dumps({"version": VERSION, "task": LOG_TASK, **asdict(config)}, indent=1)
        write_bytes(folder / "config.json", f"{text}\n".encode())
        agent = Wolpertinger.from_log(
            log,
            actions,
            updates=config.updates,
            unlogged=config.unlogged,
            callback=None if quiet else _Bar(),
            logger=open_logs(folder / "logs"),
            seed=config.seed,
            device=device,
            **_arguments(config.agent),
        )
        agent.logger.close()
        for name in ("best", "last"):  # nobody can say which moment was better without an environment
            agent.save(folder / "checkpoints" / f"{name}.zip")
        result = {
            "updates": agent._n_updates,
            "rows": len(log),
            "seconds": perf_counter() - start,
            "actions": agent.actions.n,
            "versions": {name: version(name) for name in ("wolpertinger", "torch", "stable-baselines3")},
            "python": platform.python_version(),
        }
        write_bytes(folder / "result.json", (json.dumps(result, indent=1) + "\n").encode())
        drop_replaced(folder)
    return folder


class _Bar(BaseCallback):
    """How far learning is, on the terminal."""

    def _on_training_start(self) -> None:
        self._bar = BarProgress(self.locals["total_timesteps"])
        self._bar.start()

    def _on_step(self) -> bool:
        self._bar.update(self.num_timesteps, "learning from the log")
        return True

    def _on_training_end(self) -> None:
        self._bar.stop()


def _arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """As those of a task's run, but that k may be among them."""
    k = {"k": settings["k"]} if "k" in settings else {}
    return k | agent_arguments({name: value for name, value in settings.items() if name != "k"})


def make_actions(given: str | int | None, log: Transitions) -> ActionSet:
    """The action set of a log: vectors of a file, so many ids, or as many as there are in the log."""
    if isinstance(given, str):
        return ActionTable(np.load(given, mmap_mode="r", allow_pickle=False))
    if given is not None:
        return ActionIds(given)
    if log["action"].ndim != 1:
        raise ValueError("the log's actions are no ids: give actions, a .npy file with a vector for each")
    return ActionIds(int(log.logged_actions().max()) + 1)
