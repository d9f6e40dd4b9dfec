"""When a run is saved: every so many seconds, when a signal asks it to stop, when it fails, and at the end."""

import json
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from wolpertinger.agent.checkpoint_folder import CheckpointFolder
from wolpertinger.atomic import SaveError
from wolpertinger.runs.curve import LearningCurve
from wolpertinger.runs.logs import keep_logs
from wolpertinger.runs.run_folder import STATE, aside_of, drop_replaced
from wolpertinger.runs.signals import Interrupted, Stop
from wolpertinger.threads import count_threads, shares_small_work

RUN, LOG = "run.json", "log.csv"  # in a checkpoint, beside the agent's files
EVERY_SECONDS = 30.0


class Checkpointing(BaseCallback):
    """Saves a run between two rollouts, where nothing is half done.

    :param every: seconds from one checkpoint to the next; None: none at all.
    :param resumed: the checkpoint that the run goes on from.
    """

    def __init__(
        self, folder: Path, curve: LearningCurve, *, every: float | None, stop: Stop, resumed: Path | None = None
    ) -> None:
        super().__init__()
        self.folder, self.curve, self.every, self.stop = folder, curve, every, stop
        self.checkpoints = None if every is None else CheckpointFolder(folder / STATE, resumed=resumed)
        self._is_first, self._has_begun = resumed is None, False
        self._due = perf_counter() + (every or 0.0)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        self._has_begun = True
        if self._is_first:  # so that a run can be resumed from its first moment on
            self.save()
            self._is_first = False
        if self.stop.signum is not None:
            raise Interrupted(self.stop.signum, f"interrupted at step {self.model.num_timesteps:,}; {self._stop()}")
        if self.every is not None and perf_counter() >= self._due:
            self.save()
            drop_replaced(self.folder)
            self._due = perf_counter() + self.every

    def _on_training_end(self) -> None:
        # A limit in seconds ends a run amid a step.
        if self.save(with_env=self.model.num_timesteps >= self.curve.steps):
            drop_replaced(self.folder)

    def save(self, *, with_env: bool = True) -> bool:
        """Save all that the run goes on from; on a full disk, warn and go on. Whether it was saved."""
        if self.checkpoints is None:
            return False
        table, events = keep_logs(self.folder / "logs")
        run = {
            "every": self.every,
            "threads": count_threads(),
            "small_work": shares_small_work(),
            "device": str(self.model.device),
            "curve": self.curve.state_dict(),
            "events": events,
        }
        try:
            self.checkpoints.save(self.model, {RUN: json.dumps(run).encode(), LOG: table}, with_env=with_env)
        except SaveError as error:
            warnings.warn(f"the run was not saved, training goes on: {error}", stacklevel=2)
            return False
        return True

    def save_after(self, error: Exception) -> None:
        """Save a run that an error has ended, and note on the error how to go on."""
        if not self._has_begun:  # nothing new to save, and perhaps an agent that is half restored
            return
        try:
            # The environments may be amid a step: a run that goes on from here begins new episodes.
            error.add_note(self._stop(with_env=False))
        except Exception as another:
            error.add_note(f"the run could not be saved: {another}")

    def _stop(self, **options: Any) -> str:
        if not self.save(**options):
            return "the run was not saved"
        replaced = aside_of(self.folder)
        old = f" (the run before it is in {replaced})" if replaced.exists() else ""
        return f"the run is saved, go on with: wolpertinger train --resume {self.folder}{old}"
