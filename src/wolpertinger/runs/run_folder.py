"""Run folders: what may be in one, who may write into it, and how one takes the place of another."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wolpertinger.settings import show

RUN_FILES = {"config.json", "logs", "checkpoints", "state", "curve.csv", "curve.png", "result.json", "watch.mp4"}
STATE = "state"  # folder of what a run is resumed from


def check_folder(folder: Path, overwrite: bool) -> None:
    """Never write into, or remove, a folder that holds anything but a run."""
    if not folder.exists():
        return
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {folder.name}
    if strange := sorted(names - RUN_FILES):
        raise FileExistsError(f"{folder} holds what is not of a run ({', '.join(strange[:3])}): give another folder")
    if "config.json" in names and not overwrite:
        raise FileExistsError(
            f"{folder} holds a run already: give another folder, or --overwrite; --resume {folder} goes on with it"
        )


def make_folder(folder: Path) -> None:
    """Make a folder, and those that it is in; an error names the one that was asked for."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"the folder {show(str(folder))} cannot be made: {error.strerror}") from error


def begin_folder(folder: Path) -> None:
    """Make an empty run folder; a run that is there is put aside until the new one has something to show."""
    if folder.exists() and any(folder.iterdir()):
        with lock(folder):
            if aside_of(folder).exists():  # since a run that had nothing to show for itself
                shutil.rmtree(folder)
            else:
                folder.rename(aside_of(folder))
    make_folder(folder / "checkpoints")


def aside_of(folder: Path) -> Path:
    """Where a run is kept that another one is to replace."""
    whole = folder.resolve()
    return whole.with_name(f"{whole.name}.replaced")


def drop_replaced(folder: Path) -> None:
    """Remove the run that this one has replaced."""
    if aside_of(folder).exists():
        shutil.rmtree(aside_of(folder))


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Keep other processes from training into the folder; the lock ends with the process, however that ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(f"{folder} is being trained by another process") from error
        yield
    finally:
        os.close(descriptor)
