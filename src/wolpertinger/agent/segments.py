"""The replay buffer on disk, written as it grows: files of rows that never change, and a list of those that count.

Rows are numbered as they are stored: row i is at position i % size of the ring. A checkpoint lists segments whose rows
cover the ring; later ones overwrite earlier ones, so a segment is dropped once all of its rows are overwritten.
"""

import hashlib
import json
import re
import secrets
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import safetensors.numpy
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer

from wolpertinger import atomic
from wolpertinger.agent.buffer_files import buffer_arrays, check_rows
from wolpertinger.archive import CheckpointError, read_arrays, read_json, readable

KNOWN = (ReplayBuffer, DictReplayBuffer, NStepReplayBuffer)
NAME = re.compile(r"rows-[0-9]+-[0-9a-f]{16}\.safetensors")
PATTERN = "rows-*.safetensors"
SEGMENT_BYTES = 1 << 23  # smaller ones are joined with the next, as long as that writes no more than twice the new rows


Read = TypeVar("Read")


@dataclass(frozen=True)
class Segment:
    """Rows `start` to `stop` in a file of their own."""

    name: str
    start: int
    stop: int
    bytes: int
    sha256: str

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def __post_init__(self) -> None:
        numbers = (self.start, self.stop, self.bytes)
        right = all(type(number) is int for number in numbers) and 0 <= self.start < self.stop < 2**62
        right = right and self.bytes > 0
        if not (right and isinstance(self.sha256, str) and NAME.fullmatch(self.name)):
            raise ValueError(f"{self!r} is no segment of a replay buffer")


def write_new(folder: Path, buffer: ReplayBuffer, stored: int, before: Iterable[Segment]) -> list[Segment]:
    """Write what was stored since the segments `before`, `stored` rows in all, and return those that hold the ring."""
    if type(buffer) not in KNOWN:
        known = ", ".join(kind.__name__ for kind in KNOWN)
        raise TypeError(f"a {type(buffer).__name__} cannot be kept in checkpoints of a run: {known} can")
    arrays, end = buffer_arrays(buffer), _end(buffer, stored)
    oldest = max(0, end - buffer.buffer_size)
    row_bytes = sum(array[0].nbytes for array in arrays.values())
    kept = [segment for segment in before if segment.stop > oldest]
    # The last row once more: that an episode was cut after it may have been noted since.
    start = max(oldest, kept[-1].stop - 1) if kept else oldest
    while kept and kept[-1].rows <= end - start <= SEGMENT_BYTES // row_bytes - kept[-1].rows:
        start = max(oldest, kept.pop().start)
    rows = max(1, SEGMENT_BYTES // row_bytes)
    for first in range(start, end, rows):
        kept.append(_write(folder, arrays, buffer.buffer_size, first, min(first + rows, end)))
    atomic.sync_folder(folder)
    return kept


def _end(buffer: ReplayBuffer, stored: int) -> int:
    """Rows to keep: with shared observations the one after the last holds what the last led to."""
    return stored + bool(buffer.optimize_memory_usage)


def _write(folder: Path, arrays: dict[str, np.ndarray], size: int, start: int, stop: int) -> Segment:
    first, last = start % size, (stop - 1) % size + 1
    places = slice(first, last) if first < last else np.arange(start, stop) % size  # a view, unless the ring wraps
    data = safetensors.numpy.save({name: array[places] for name, array in arrays.items()})
    name = f"rows-{start}-{secrets.token_hex(8)}.safetensors"
    atomic.write_bytes(folder / name, data, sync=False)
    return Segment(name, start, stop, len(data), hashlib.sha256(data).hexdigest())


def read_segments(folder: Path, buffer: ReplayBuffer, stored: int, segments: list[Segment]) -> None:
    """Fill the buffer with the segments' rows, each file checked before it is used."""
    arrays, size, end = buffer_arrays(buffer), buffer.buffer_size, _end(buffer, stored)
    reached = max(0, end - size)
    for segment in segments:
        if segment.start > reached or segment.stop > end:
            raise CheckpointError(f"{segment.name} holds rows {segment.start} to {segment.stop}, {reached} is next")
        rows = _read(folder / segment.name, segment, arrays)
        check_rows(rows, buffer.action_space)
        keep = slice(max(0, segment.rows - size), None)  # a ring's worth at most
        places = np.arange(segment.start, segment.stop)[keep] % size
        for name, array in arrays.items():
            array[places] = rows[name][keep]
        reached = segment.stop
    if reached != end:
        raise CheckpointError(f"the replay buffer's segments end at row {reached}, {end} were saved")
    buffer.pos, buffer.full = stored % size, stored >= size


def _read(path: Path, segment: Segment, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    try:
        found = path.stat().st_size
        data = path.read_bytes() if found == segment.bytes else b""
    except OSError as error:
        raise CheckpointError(f"{path}, a part of the replay buffer, cannot be read: {error}") from error
    if found != segment.bytes or hashlib.sha256(data).hexdigest() != segment.sha256:
        raise CheckpointError(f"{path} is damaged: {found} bytes, {segment.bytes} were saved, or another SHA-256")
    with readable(str(path)):
        rows = read_arrays(data)
    expected = {name: (array.dtype, (segment.rows, *array.shape[1:])) for name, array in arrays.items()}
    if (forms := {name: (array.dtype, array.shape) for name, array in rows.items()}) != expected:
        raise CheckpointError(f"{path} holds {forms}, this agent's replay buffer {expected}")
    return rows


def write_list(stored: int, segments: Iterable[Segment]) -> bytes:
    """How many rows were stored, and the segments that hold the last of them, as JSON."""
    return json.dumps({"stored": stored, "segments": [asdict(segment) for segment in segments]}).encode()


def read_list(data: bytes) -> tuple[int, list[Segment]]:
    """What `write_list` wrote."""
    found = read_json(data)
    if found.keys() != {"stored", "segments"} or type(found["stored"]) is not int or not 0 <= found["stored"] < 2**62:
        raise ValueError(f"the list of segments says {found}")
    return found["stored"], [Segment(**facts) for facts in found["segments"]]


def checkpoints_in(folder: Path) -> list[Path]:
    """A folder's numbered checkpoints, the newest first."""
    found = [path for path in folder.glob("*.zip") if path.stem.isdecimal()]
    return sorted(found, key=lambda path: int(path.stem), reverse=True)


def newest_of(folder: Path, read: Callable[[Path], Read]) -> Read:
    """What `read` makes of the newest checkpoint in a folder; of the one before, with a warning, if it is damaged."""
    paths = checkpoints_in(folder)
    if not paths:
        raise FileNotFoundError(f"{folder} holds no checkpoint")
    for path in paths[:-1]:
        try:
            return read(path)
        except CheckpointError as error:
            warnings.warn(f"{error}; the checkpoint before it is taken", stacklevel=2)
    return read(paths[-1])
