"""Train a task into a run folder: config, logs, checkpoints, learning curve, plot."""

import json
import platform
import shutil
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from wolpertinger.actions import ActionTable
from wolpertinger.agent import Exploration, Wolpertinger
from wolpertinger.agent.match import offered_actions
from wolpertinger.envs import GymnasiumVecEnv
from wolpertinger.envs.puddle_map import load_map
from wolpertinger.experiments import presets
from wolpertinger.experiments.curve import LearningCurve
from wolpertinger.experiments.plot import plot_curve
from wolpertinger.experiments.scores import SCORERS, Scorer
from wolpertinger.index.tune import BUILD_SECONDS, check_recall

SELECTION_EPISODES = 32  # where scores are by episodes: those that choose the best checkpoint ...
SELECTION_SEED = 20_000  # ... are other ones than `wolpertinger evaluate` plays
RUN_FILES = {"config.json", "logs", "checkpoints", "curve.csv", "curve.png", "result.json", "watch.mp4"}
RUN_FILES |= {"advise.json", "advise.png"}
LARGEST_TABLE = 1 << 24  # actions, whose vectors are written down


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


def make_env(config: RunConfig, n_envs: int | None = None) -> VecEnv:
    """The run's environment, many at once, with episode statistics."""
    env_id, options = presets.TASKS[config.task].env_id, dict(config.env)
    if gym.spec(env_id).vector_entry_point is None:
        options["vector_kwargs"] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    return VecMonitor(GymnasiumVecEnv(gym.make_vec(env_id, num_envs=n_envs or config.n_envs, **options)))


def make_scorer(config: RunConfig, episodes: int, seed: int) -> Scorer:
    """Scores agents on the run's task, in an environment of its own."""
    return SCORERS[config.task](make_env(config, episodes), episodes, seed)


def make_agent(config: RunConfig, env: VecEnv, device: str = "auto") -> Wolpertinger:
    """The run's agent, untrained."""
    settings = dict(config.agent)
    spec = settings.pop("exploration", {})
    if not isinstance(spec, dict):
        raise ValueError(f"exploration={spec!r}: give its settings by name, as exploration.epsilon")
    exploration = Exploration(**spec)
    actions = None if config.recall is None and not config.table else _make_table(offered_actions(env), config)
    return Wolpertinger(
        "MlpPolicy", env, actions, k=config.k, exploration=exploration, seed=config.seed, device=device, **settings
    )


def _make_table(actions: Any, config: RunConfig) -> ActionTable:
    """The environment's actions as a table, behind an index if a recall is promised."""
    build = BUILD_SECONDS if config.build_seconds is None else config.build_seconds
    if isinstance(actions, ActionTable):
        return ActionTable(actions.vectors, recall=config.recall, build_seconds=build)
    if not config.table:
        raise ValueError(
            f"recall={config.recall!r}: {actions!r} needs no index, its lookup is exact; leave recall out, "
            "or ask for a table of its vectors too"
        )
    if actions.n > LARGEST_TABLE:
        raise ValueError(f"table=True: {actions!r} has too many actions for a table, {LARGEST_TABLE:,} is the most")
    return ActionTable(actions.embed(actions.members(0, actions.n)), recall=config.recall, build_seconds=build)


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
    _write_json(folder / "config.json", asdict(config))
    agent.set_logger(configure(str(folder / "logs"), ["csv", "tensorboard"]))
    task = presets.TASKS[config.task]
    curve = LearningCurve(folder, scorer, task, steps=config.steps, seconds=config.seconds, quiet=quiet)
    start = perf_counter()
    try:
        agent.learn(config.steps, callback=curve, log_interval=_log_interval(config))
    finally:
        curve.progress.stop()  # or an interrupted run leaves the terminal without its cursor
        agent.logger.close()
    seconds = perf_counter() - start - curve.evaluating - curve.tuning
    agent.save(folder / "checkpoints" / "last.zip")
    _write_json(
        folder / "result.json",
        {
            "steps": agent.num_timesteps,
            "stopped_by": "seconds" if agent.num_timesteps < config.steps else "steps",
            "seconds": seconds,
            "evaluating_seconds": curve.evaluating,
            "tuning_seconds": curve.tuning,
            "warm_up_steps": curve.warm[0],
            "steps_per_second": curve.rate(agent.num_timesteps, seconds),
            "time": curve.time,
            "lookup": [asdict(health) for health in getattr(agent.actions, "health", [])],
            "baselines": scorer.baselines,
            "last": curve.last,
            "best": curve.best,
            "threads": torch.get_num_threads(),
            "versions": {name: version(name) for name in ("wolpertinger", "torch", "stable-baselines3", "gymnasium")},
            "python": platform.python_version(),
        },
    )
    plot_curve(folder)
    return folder


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


def read_config(folder: Path) -> RunConfig:
    """The config of a run folder."""
    path = folder / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} is no run folder: it holds no config.json (wolpertinger train makes one)")
    return RunConfig(**json.loads(path.read_text()))


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
