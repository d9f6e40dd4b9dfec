"""Files that are written whole or not at all: a temporary file, synced, then renamed."""

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}")
FRESH_SECONDS = 60  # an empty temporary file may be of a writer that has not locked it yet


class SaveError(OSError):
    """A file could not be written; what was there before is untouched. `path` and `needed` (bytes) say which."""

    path: Path
    needed: int


@contextmanager
def replacing(target: Path, needed: int, *, sync: bool = True) -> Iterator[BinaryIO]:
    """A new file that takes the place of `target` at the end of the block, with its mode; of a link, where it leads.

    Without `sync` the caller makes the rename durable: `sync_folder`, once for many files.
    """
    path = target.resolve()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a folder; or a device, which a file would take the place of
            raise OSError(errno.EINVAL, "it is there, and no file")
        _remove_once(path)
        with temporary.open("xb") as file:  # not mkstemp, whose files only their owner can read
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed, if only by the death of the process
            with suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise _save_error(error, target, needed) from error
    finally:
        with suppress(OSError):  # no folder, or a name that is too long: nothing was made
            temporary.unlink()
    if sync:
        sync_folder(path.parent)


def write_bytes(target: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file by these bytes."""
    with replacing(target, len(data), sync=sync) as file:
        file.write(data)


@contextmanager
def going_on() -> Iterator[None]:
    """Warn where a file could not be written, and go on: for what can be written again later."""
    try:
        yield
    except SaveError as error:
        warnings.warn(str(error), stacklevel=4)


def remove_litter(folder: Path, name: str | None = None, *, nobody_writes: bool = False) -> None:
    """Remove the temporary files that dead writers left in a folder: of one file's name, or of all.

    Where it is certain that nobody writes, also empty ones that have just been made.
    """
    for path in folder.glob(".*"):
        found = TEMPORARY.fullmatch(path.name)
        if found is not None and name in (None, found["name"]) and (nobody_writes or _is_abandoned(path)):
            path.unlink(missing_ok=True)


@cache
def _remove_once(path: Path) -> None:
    """Once a process for each file: looking through a large folder takes time."""
    remove_litter(path.parent, path.name)


def _is_abandoned(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its writer would hold it
        facts = path.stat()
        return facts.st_size > 0 or time.time() - facts.st_mtime > FRESH_SECONDS
    return False


def _save_error(error: OSError, target: Path, needed: int) -> SaveError:
    free = shutil.disk_usage(next(folder for folder in target.resolve().parents if os.path.exists(folder))).free
    room = f"{needed:,} bytes needed, {free:,} free"
    told = f"could not save to {target} ({room}), what was there is untouched: {error.strerror or error}"
    explained = SaveError(error.errno, told)
    explained.path, explained.needed = target, needed
    return explained


def sync_folder(folder: Path) -> None:
    """Make renames durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
