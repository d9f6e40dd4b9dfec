"""A run's logs, in CSV and for TensorBoard, which go on after an interruption where the checkpoint was."""

import csv
import io
import os
import warnings
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import CSVOutputFormat, KVWriter, Logger, TensorBoardOutputFormat

CSV = "progress.csv"
EVENTS = "events.out.tfevents.*"  # TensorBoard's files


class _Tolerant(KVWriter):
    """Writes to a log, and lets the training go on where that is not possible, on a full disk."""

    def __init__(self, log: KVWriter) -> None:
        self._log, self._has_warned = log, False

    def write(self, *entries: Any, **options: Any) -> None:
        try:
            self._log.write(*entries, **options)
        except OSError as error:
            if not self._has_warned:
                warnings.warn(f"the log cannot be written, training goes on: {error}", stacklevel=2)
            self._has_warned = True

    def close(self) -> None:
        try:
            self._log.close()
        except OSError as error:
            warnings.warn(f"the log is not complete: {error}", stacklevel=2)


def open_logs(folder: Path) -> Logger:
    """Begin a run's logs; after `restore_logs`, go on with them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CSV
    before = path.read_text() if path.exists() else ""
    new = folder / f".{CSV}.new"  # renamed when it holds what was there: no moment without it
    table = CSVOutputFormat(str(new))
    table.file.write(before)
    table.file.flush()
    table.keys = next(csv.reader(io.StringIO(before)), [])
    os.replace(new, path)
    return Logger(str(folder), [_Tolerant(table), _Tolerant(TensorBoardOutputFormat(str(folder)))])


def keep_logs(folder: Path) -> tuple[bytes, dict[str, int]]:
    """What a checkpoint keeps of the logs: the CSV itself, and how long TensorBoard's files are."""
    return (folder / CSV).read_bytes(), {path.name: path.stat().st_size for path in folder.glob(EVENTS)}


def restore_logs(folder: Path, table: bytes, events: dict[str, int]) -> None:
    """Take out of the logs what was written after the checkpoint, or the steps after it would be there twice."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CSV).write_bytes(table)
    for path in folder.glob(EVENTS):
        if path.name not in events:
            path.unlink()
        elif path.stat().st_size > events[path.name]:
            os.truncate(path, events[path.name])
