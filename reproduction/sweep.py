"""Do the runs that have no result yet, several at a time, and stop at the first that fails.

Each run has a process of its own. Its result file appears whole at its end, so a sweep that was killed goes on with
what is missing.
"""

import fcntl
import multiprocessing
import os
import shutil
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reproduction.perform import perform
from reproduction.plan import Run
from reproduction.results import Results
from wolpertinger.threads import set_threads

# A server with everything imported, which takes seconds, forks a process for each run.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["reproduction.perform", "torch._dynamo"])
# What a run takes beside its training, in seconds: evaluation as a share of the training, and making the task; measured
# in the full sweep. For the time left only.
EVALUATION, SET_UP = 0.25, 15.0
LOOK = 0.5  # seconds between two looks at the running ones


class SweepError(RuntimeError):
    """A run failed; all results so far are kept."""


def sweep(runs: Sequence[Run], results: Results, jobs: int, console: Console | None = None) -> int:
    """Do the runs without a result, and return how many they were.

    Runs that learn go side by side, each on one thread. Runs that measure speed follow alone, on all threads.
    """
    waiting = [run for run in runs if results.read(run) is None]
    speed = [run for run in waiting if run.variant.kind == "speed"]
    others = [run for run in waiting if run.variant.kind != "speed"]
    bar = SweepProgress(waiting, len(runs), console)
    with bar.progress:
        _perform_all(others, results, jobs, 1, bar)
        _perform_all(speed, results, 1, None, bar)
    return len(waiting)


def _perform_all(runs: Sequence[Run], results: Results, jobs: int, threads: int | None, bar: "SweepProgress") -> None:
    left = list(reversed(runs))
    running: dict[Any, tuple[Run, BaseProcess]] = {}  # by what `wait` waits for
    try:
        while left or running:
            while left and len(running) < jobs:
                process = SERVER.Process(target=_work, args=(run := left.pop(), results.folder, threads))
                process.start()
                running[process.sentinel] = run, process
                bar.begin(run)
            for sentinel in wait(list(running), timeout=LOOK):
                run, ended = running.pop(sentinel)
                ended.join()
                if ended.exitcode != 0:
                    raise SweepError(_reason(run, ended, results.folder))
                bar.end(run)
            bar.show()
    finally:  # also if the user interrupts
        for _, other in running.values():
            other.terminate()


def _reason(run: Run, process: BaseProcess, folder: Path) -> str:
    log = _log(folder, run)
    lines = log.read_text().strip().splitlines() if log.exists() else []
    killed = f"its process ended with {process.exitcode} (a negative number is a signal; -9 may be a lack of memory)"
    how = lines[-1] if lines and process.exitcode == 1 else killed
    return f"{run.name} failed: {how}. The whole of it: {log}. Finished runs are kept; the same command goes on."


def work_folder(folder: Path, run: Run) -> Path:
    """Where a run keeps its checkpoints and logs."""
    return folder / "work" / run.name


def _log(folder: Path, run: Run) -> Path:
    return work_folder(folder, run).with_suffix(".log")


def _work(run: Run, folder: Path, threads: int | None) -> None:
    """What the process of a run does."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if threads is not None:
        set_threads(threads)
    log = _log(folder, run)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file, redirect_stdout(file), redirect_stderr(file):
        try:
            shutil.rmtree(work_folder(folder, run), ignore_errors=True)  # of an earlier try
            Results(folder).write(run, perform(run, work_folder(folder, run)))
        except Exception:
            traceback.print_exc()
            raise SystemExit(1) from None


def _end_with_parent() -> None:
    """A sweep that was killed leaves no runs behind, which would get into the way of the next one."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One sweep in a folder at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(f"another sweep is at work in {folder}: wait for it, or give another folder") from error
        yield


class SweepProgress:
    """A bar over the expected time of all runs."""

    def __init__(self, waiting: Sequence[Run], total: int, console: Console | None) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("<"),
            TimeRemainingColumn(),
            console=console,
            speed_estimate_period=3600,
        )
        self.total, self.done, self.spent = total, total - len(waiting), 0.0
        self.begun: dict[str, tuple[Run, float]] = {}  # those at work, by name
        self.bar = self.progress.add_task("", total=sum(map(expected_seconds, waiting)))
        self.show()

    def begin(self, run: Run) -> None:
        self.begun[run.name] = run, time.perf_counter()

    def end(self, run: Run) -> None:
        seconds = time.perf_counter() - self.begun.pop(run.name)[1]
        self.done += 1
        self.spent += expected_seconds(run)
        self.progress.console.print(f"{self.done} of {self.total}  {run.name}  {seconds:.0f} s", highlight=False)

    def show(self) -> None:
        now = time.perf_counter()
        running = sum(min(now - start, expected_seconds(run)) for run, start in self.begun.values())
        self.progress.update(self.bar, completed=self.spent + running, description=f"{self.done} of {self.total} runs")


def expected_seconds(run: Run) -> float:
    """About what a run takes."""
    evaluation = EVALUATION * run.variant.seconds if run.variant.kind == "learning" else 0.0
    return SET_UP + run.variant.seconds + evaluation
