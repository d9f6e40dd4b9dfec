"""Changes of the action set, durable before they are answered: a line each, with a checksum, beside the agent."""

import base64
import fcntl
import json
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from wolpertinger.actions import ActionSet
from wolpertinger.archive import CheckpointError
from wolpertinger.atomic import sync_folder

KIND, VERSION = "wolpertinger changes", 1


@dataclass(frozen=True, eq=False)
class Added:
    """New actions, the first of which has this id."""

    first: int
    vectors: npt.NDArray[np.float32]

    def apply(self, actions: ActionSet) -> npt.NDArray[np.int64]:
        """Add them; their ids."""
        ids = actions.add(self.vectors)
        if ids[0] != self.first:
            raise CheckpointError(f"an action was added as {self.first}, and would now be {ids[0]}: of another set")
        return ids

    def to_json(self) -> dict[str, Any]:
        data = base64.b64encode(np.ascontiguousarray(self.vectors, "<f4").tobytes()).decode()
        return {"add": self.first, "dim": self.vectors.shape[1], "vectors": data}


@dataclass(frozen=True)
class Removed:
    """Actions that are gone."""

    ids: list[int]

    def apply(self, actions: ActionSet) -> npt.NDArray[np.int64]:
        """Remove them."""
        ids = np.array(self.ids, np.int64)
        actions.remove(ids)
        return ids

    def to_json(self) -> dict[str, Any]:
        return {"remove": self.ids}


Change = Added | Removed


@dataclass(frozen=True)
class Changes:
    """What a journal holds."""

    base: str | None = None
    """SHA-256 of the set that was changed; None: there is no journal."""
    changes: list[Change] = field(default_factory=list)
    length: int = 0
    """Bytes that are whole; behind them may be a line that was never answered."""

    def apply(self, actions: ActionSet, path: Path) -> None:
        """Make the same changes to a set that was just loaded."""
        if self.changes and self.base != actions.sha256:
            raise CheckpointError(
                f"{path} holds {len(self.changes)} changes of the set with SHA-256 {self.base}, and the agent's is "
                f"{actions.sha256}: serve an agent of that set, or move the journal away to give its changes up"
            )
        for change in self.changes:
            change.apply(actions)


def read(path: Path) -> Changes:
    """The changes in a journal; a last line that is cut short was never answered, and does not count."""
    if not path.exists():
        return Changes()
    *lines, _ = path.read_bytes().split(b"\n")
    read = [_decode(line) for line in lines]
    while read and read[-1] is None:  # a write that the machine's end cut may leave any bytes
        read.pop()
    if not read:
        return Changes()
    header, *others = read
    if None in read or header.get("kind") != KIND or header.get("version") != VERSION:  # type: ignore[union-attr]
        raise CheckpointError(f"{path} is damaged, or no journal of version {VERSION}: its lines do not fit")
    whole = sum(len(line) + 1 for line in lines[: len(read)])
    return Changes(header["base"], [_to_change(one) for one in others if one is not None], whole)  # type: ignore[index]


class Journal:
    """A journal to write on; one process at a time may."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = open(path, "ab")  # noqa: SIM115 - as long as the service runs
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise BlockingIOError(f"{path} is in use: another service changes this agent's actions") from error
        self._length = self._before = 0

    def begin(self, known: Changes, base: str) -> None:
        """Go on behind what was read, or begin anew where nothing was changed yet."""
        if known.changes:
            self._length = self._length or known.length
        else:
            self._length = 0
            self._write({"kind": KIND, "version": VERSION, "base": base})
            sync_folder(self.path.resolve().parent)

    def append(self, change: Change) -> None:
        """Write a change; when this returns, it survives the end of the process and of the machine."""
        self._write(change.to_json())

    def retract(self) -> None:
        """Take the last change back, which could not be made."""
        self._length = self._before
        os.ftruncate(self._file.fileno(), self._length)

    def close(self) -> None:
        self._file.close()

    def _write(self, value: dict[str, Any]) -> None:
        os.ftruncate(self._file.fileno(), self._length)  # behind it is what was never answered
        line = _encode(value)
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            os.ftruncate(self._file.fileno(), self._length)
            raise
        self._before, self._length = self._length, self._length + len(line)


def _encode(value: dict[str, Any]) -> bytes:
    text = json.dumps(value).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _decode(line: bytes) -> dict[str, Any] | None:
    checksum, _, text = line.partition(b" ")
    return json.loads(text) if checksum == b"%08x" % zlib.crc32(text) else None


def _to_change(value: dict[str, Any]) -> Change:
    if "remove" in value:
        return Removed(value["remove"])
    vectors = np.frombuffer(base64.b64decode(value["vectors"]), "<f4").reshape(-1, value["dim"])
    return Added(value["add"], vectors.astype(np.float32))
