"""A run's learning curve: when to score the agent, which checkpoint is the best, and what the time went into."""

import csv
import io
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from wolpertinger.agent import Wolpertinger
from wolpertinger.atomic import going_on, write_bytes
from wolpertinger.runs.presets import Preset
from wolpertinger.runs.progress import BarProgress, NoProgress, Progress
from wolpertinger.runs.scores import Score, Scorer

Point = dict[str, float | None]
KEPT = (
    "points",
    "best",
    "best_return",
    "evaluating",
    "next_steps",
    "next_seconds",
    "earliest",
    "tuned_evaluating",
    "warm",
)
LEAST_TRAINING = 4  # seconds of training for one of evaluation, where a run is limited in seconds
CURVE = ("steps", "seconds", "return", "share", "distinct")


class LearningCurve(BaseCallback):
    """Scores the agent at even intervals, keeps the best checkpoint, and shows progress with the live return.

    Where a run is limited in seconds it also ends the run, and the intervals are those of steps or of seconds,
    whichever are shorter, but long enough to spend more time on training than on evaluation.
    """

    def __init__(
        self, folder: Path, scorer: Scorer, preset: Preset, *, steps: int, seconds: float | None, quiet: bool
    ) -> None:
        super().__init__()
        self.folder, self.scorer, self.steps = folder, scorer, steps
        self.seconds = inf if seconds is None else seconds
        self.interval = max(steps // preset.evaluations, preset.episode_steps)  # a short run is not all evaluation
        self.pause = self.seconds / preset.evaluations
        self.progress: Progress = NoProgress() if quiet else BarProgress(steps)
        self.evaluating = 0.0  # seconds spent on it
        self.points: list[Point] = []
        self.best: Point = {}
        self.best_return = -inf
        self.next_steps, self.next_seconds, self.earliest = self.interval, self.pause, 0.0
        self.tuned_before, self.tuned_evaluating = 0.0, 0.0
        self.warm = (0, 0.0)  # steps and seconds before the first update
        self._trained_before = 0.0

    def _on_training_start(self) -> None:
        self.progress.start()
        self.started = perf_counter() - self._trained_before - self.evaluating - self.tuning
        self._write()

    def state_dict(self) -> dict[str, Any]:
        """The curve so far, and when what comes next is due."""
        kept = {name: getattr(self, name) for name in KEPT}
        return {**kept, "tuned_before": self.tuning, "trained": self.trained}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        for name in KEPT:
            setattr(self, name, state[name])
        self.tuned_before, self._trained_before = state["tuned_before"], state["trained"]

    @property
    def last(self) -> Point:
        """The last point of the curve."""
        return self.points[-1] if self.points else {}

    @property
    def trained(self) -> float:
        """Seconds of training alone."""
        return perf_counter() - self.started - self.evaluating - self.tuning

    @property
    def tuning(self) -> float:
        """Seconds that went into the lookup's tuning."""
        if not isinstance(self.model, Wolpertinger):
            return self.tuned_before
        return self.tuned_before + float(self.model.actions.stats(self.model.k).get("tuning_seconds", 0.0))

    def rate(self, steps: int, seconds: float) -> float:
        """Steps per second from the first update on: random ones before it cost next to nothing."""
        warm_steps, warm_seconds = self.warm
        return (steps - warm_steps) / max(seconds - warm_seconds, 1e-9)

    @property
    def time(self) -> dict[str, float]:
        """Seconds of training by what they went into, without evaluation and tuning."""
        assert isinstance(self.model, Wolpertinger)
        spent = dict(self.model.policy.timer.seconds)
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
        self.progress.update(min(int(done), self.steps), live)
        return trained < self.seconds

    def _on_training_end(self) -> None:
        self._evaluate()  # what is saved as the last checkpoint

    def _evaluate(self) -> None:
        start, tuned, seconds = perf_counter(), self.tuning, self.trained
        assert isinstance(self.model, Wolpertinger)
        sections = dict(self.model.policy.timer.seconds)
        score = self.scorer.score(self.model)
        self.model.policy.timer.seconds.clear()
        self.model.policy.timer.seconds.update(sections)  # which tells of training only
        self.tuned_evaluating += self.tuning - tuned
        point = (self.num_timesteps, seconds, score.value, score.share, score.distinct)
        self.points.append(dict(zip(CURVE, point, strict=True)))
        self._write()
        if score.value > self.best_return:
            self._keep_best(score.value)
        self._report(score, seconds)
        spent = perf_counter() - start - (self.tuning - tuned)
        self.evaluating += spent
        self.earliest = seconds + LEAST_TRAINING * spent if self.seconds < inf else 0.0

    def _write(self) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows([CURVE, *(point.values() for point in self.points)])
        with going_on():
            write_bytes(self.folder / "curve.csv", text.getvalue().encode())

    def _keep_best(self, value: float) -> None:
        self.best, self.best_return = self.last, value
        with going_on():
            self.model.save(self.folder / "checkpoints" / "best.zip")

    def _report(self, score: Score, seconds: float) -> None:
        self.logger.record("eval/return", score.value)
        self.logger.record("eval/distinct_actions", score.distinct)
        share = ""
        if score.share is not None:
            self.logger.record("eval/share_of_optimal", score.share)
            share = f" = {score.share:5.1%} of {next(iter(self.scorer.baselines))}"
        done = f"{self.num_timesteps:>10,} steps {seconds:4.0f} s"
        line = f"{done}  return {score.value:.3f}{share}, {score.distinct} actions"
        self.progress.say(line)
