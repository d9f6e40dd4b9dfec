"""Train a task into a run folder: config, logs, checkpoints, learning curve, plot."""

import csv
import json
import platform
import shutil
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from wolpertinger.actions import ActionTable
from wolpertinger.agent import Exploration, Wolpertinger
from wolpertinger.agent.match import offered_actions
from wolpertinger.envs import GymnasiumVecEnv
from wolpertinger.envs.puddle_map import load_map
from wolpertinger.experiments import presets
from wolpertinger.experiments.plot import plot_curve
from wolpertinger.experiments.scores import SCORERS, Score, Scorer
from wolpertinger.index.tune import BUILD_SECONDS, check_recall

SELECTION_EPISODES = 32  # where scores are by episodes: those that choose the best checkpoint ...
SELECTION_SEED = 20_000  # ... are other ones than `wolpertinger evaluate` plays
RUN_FILES = {"config.json", "logs", "checkpoints", "curve.csv", "curve.png", "result.json", "watch.mp4"}
RUN_FILES |= {"advise.json", "advise.png"}
LARGEST_TABLE = 1 << 24  # actions, whose vectors are written down
LEAST_TRAINING = 4  # seconds of training for one of evaluation, where a run is limited in seconds
CURVE = ("steps", "seconds", "return", "share", "distinct")


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
    chosen = presets.TASKS[task]
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
    return RunConfig(
        task=task,
        env={name: value for name, value in options.items() if value is not None},
        n_envs=chosen.n_envs if n_envs is None else n_envs,
        steps=chosen.steps if steps is None else steps,
        seed=seed,
        k=chosen.k if k is None else k,
        preset=preset,
        agent=_merge(presets.settings(task, preset), changes or {}),
        recall=recall if recall is None else check_recall(recall),
        table=table,
        build_seconds=build_seconds,
        seconds=seconds,
    )


def _merge(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Settings with changes laid over them, into nested ones too."""
    merged = dict(settings)
    for name, value in changes.items():
        nested = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], value) if nested else value
    return merged


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
    curve = LearningCurve(folder, scorer, config, quiet=quiet)
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
    task = presets.TASKS[config.task]
    steps = config.steps if config.seconds is None else min(config.steps, task.steps)  # the seconds may come first
    return max(1, steps // (200 * task.episode_steps))


def read_config(folder: Path) -> RunConfig:
    """The config of a run folder."""
    path = folder / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} is no run folder: it holds no config.json (wolpertinger train makes one)")
    return RunConfig(**json.loads(path.read_text()))


class LearningCurve(BaseCallback):
    """Scores the agent at even intervals, keeps the best checkpoint, and shows progress with the live return.

    Where a run is limited in seconds it also ends the run, and the intervals are those of steps or of seconds,
    whichever are shorter, but long enough to spend more time on training than on evaluation.
    """

    def __init__(self, folder: Path, scorer: Scorer, config: RunConfig, quiet: bool) -> None:
        super().__init__()
        self.folder, self.scorer, self.steps = folder, scorer, config.steps
        self.seconds = inf if config.seconds is None else config.seconds
        task = presets.TASKS[config.task]
        self.interval = max(config.steps // task.evaluations, task.episode_steps)  # a short run is not all evaluation
        self.pause = self.seconds / task.evaluations
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        console = Console(quiet=quiet)
        self.progress = Progress(*columns, TextColumn("<"), TimeRemainingColumn(), console=console)
        self.evaluating = 0.0  # seconds spent on it
        self.last: dict[str, float | None] = {}
        self.best: dict[str, float | None] = {}

    def _on_training_start(self) -> None:
        self.bar = self.progress.add_task("training", total=self.steps)
        self.progress.start()
        self.started = perf_counter()
        self.next_steps, self.next_seconds, self.earliest = self.interval, self.pause, 0.0
        self.best_return = float("-inf")
        self.tuned_evaluating = 0.0
        self.warm = (0, 0.0)  # steps and seconds before the first update
        with (self.folder / "curve.csv").open("w", newline="") as file:
            csv.writer(file).writerow(CURVE)

    @property
    def trained(self) -> float:
        """Seconds of training alone."""
        return perf_counter() - self.started - self.evaluating - self.tuning

    @property
    def tuning(self) -> float:
        """Seconds that went into the lookup's tuning."""
        actions = self.model.actions if isinstance(self.model, Wolpertinger) else None
        return actions.tuning_seconds if isinstance(actions, ActionTable) else 0.0

    def rate(self, steps: int, seconds: float) -> float:
        """Steps per second from the first update on: random ones before it cost next to nothing."""
        warm_steps, warm_seconds = self.warm
        return (steps - warm_steps) / max(seconds - warm_seconds, 1e-9)

    @property
    def time(self) -> dict[str, float]:
        """Seconds of training by what they went into, without evaluation and tuning."""
        assert isinstance(self.model, Wolpertinger)
        spent = dict(self.model.policy.clock.seconds)
        if "lookup" in spent:
            spent["lookup"] -= self.tuning - self.tuned_evaluating
        return spent

    def _on_step(self) -> bool:
        trained = self.trained
        assert isinstance(self.model, Wolpertinger)
        if self.num_timesteps <= self.model.learning_starts:
            self.warm = self.num_timesteps, trained
        goes_on = self.num_timesteps < self.steps and trained < self.seconds
        due = self.num_timesteps >= self.next_steps or trained >= self.next_seconds
        if due and goes_on and trained >= self.earliest:
            self._evaluate()
            self.next_steps = (self.num_timesteps // self.interval + 1) * self.interval
            self.next_seconds = (trained // self.pause + 1) * self.pause
        # Learning rate and noise fall until the steps that will be reached, which a limit in seconds may cut.
        reached = int(min(self.steps, self.num_timesteps * self.seconds / trained))
        self.model._total_timesteps = max(reached, self.num_timesteps)
        returns = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        live = f"return {sum(returns) / len(returns):.2f}" if returns else "training"
        done = self.steps * self.num_timesteps / self.model._total_timesteps
        self.progress.update(self.bar, completed=min(int(done), self.steps), description=live)
        return trained < self.seconds

    def _on_training_end(self) -> None:
        self._evaluate()  # what is saved as the last checkpoint

    def _evaluate(self) -> None:
        start, tuned, seconds = perf_counter(), self.tuning, self.trained
        assert isinstance(self.model, Wolpertinger)
        clock = dict(self.model.policy.clock.seconds)
        score = self.scorer.score(self.model)
        self.model.policy.clock.seconds.update(clock)  # which tells of training only
        self.tuned_evaluating += self.tuning - tuned
        point = (self.num_timesteps, seconds, score.value, score.share, score.distinct)
        self.last = dict(zip(CURVE, point, strict=True))
        with (self.folder / "curve.csv").open("a", newline="") as file:
            csv.writer(file).writerow(self.last.values())
        if score.value > self.best_return:
            self.best, self.best_return = self.last, score.value
            self.model.save(self.folder / "checkpoints" / "best.zip")
        self._report(score, seconds)
        spent = perf_counter() - start - (self.tuning - tuned)
        self.evaluating += spent
        self.earliest = seconds + LEAST_TRAINING * spent if self.seconds < inf else 0.0

    def _report(self, score: Score, seconds: float) -> None:
        self.logger.record("eval/return", score.value)
        self.logger.record("eval/distinct_actions", score.distinct)
        share = ""
        if score.share is not None:
            self.logger.record("eval/share_of_optimal", score.share)
            share = f" = {score.share:5.1%} of {next(iter(self.scorer.baselines))}"
        done = f"{self.num_timesteps:>10,} steps {seconds:4.0f} s"
        line = f"{done}  return {score.value:.3f}{share}, {score.distinct} actions"
        self.progress.console.print(line, highlight=False, soft_wrap=True)


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
