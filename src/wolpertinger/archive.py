"""Zip archives with a SHA-256 manifest: written atomically, and read only if every checksum matches.

A checksum says that a file is as it was written, not by whom: whatever is read is bounded by the size of the file.
"""

import hashlib
import io
import json
import pathlib
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import numpy as np
import safetensors.numpy

from wolpertinger.atomic import replacing

MANIFEST = "manifest.json"
VERSION = 4
MAX_MANIFEST_BYTES = 1 << 20  # it is read before anything in the file is trusted
MAX_DIRECTORY_BYTES = 1 << 20  # of the zip, whose entries take 20 times as much in memory
# JSON takes up to 100 bytes an item once it is read, and a tensor up to 1,000 beside its numbers.
MAX_JSON_BYTES, MAX_JSON_ITEMS, MAX_HEADER_BYTES = 1 << 25, 1 << 20, 1 << 22
LOCAL_HEADER_BYTES = 30  # of a zip's member, without its name

# Exceptions that reading a damaged zip may raise.
DAMAGE = (zipfile.BadZipFile, EOFError, RuntimeError, ValueError, OverflowError, OSError, struct.error)

Target = str | pathlib.Path | io.BufferedIOBase
Buffer = bytes | memoryview


class CheckpointError(ValueError):
    """A file is damaged, or not of the expected kind; the message says why."""


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Whatever is wrong with the content of a file is a CheckpointError, with the name of what was read."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:  # a stranger chooses what goes wrong
        raise CheckpointError(f"{name} in the file does not fit: {type(error).__name__}: {error}") from error


def read_json(data: bytes) -> Any:
    """Parse JSON, if it takes little memory."""
    items = sum(data.count(sign) for sign in (b",", b"[", b"{"))
    if len(data) > MAX_JSON_BYTES or items > MAX_JSON_ITEMS:
        raise ValueError(
            f"{len(data):,} bytes of JSON, {items:,} items: {MAX_JSON_BYTES:,} and {MAX_JSON_ITEMS:,} at most are read"
        )
    return json.loads(data)


def check_header(data: bytes) -> bytes:
    """The same safetensors, if their list of tensors is short; their sizes are checked by who reads them."""
    if (length := int.from_bytes(data[:8], "little")) > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {length:,} bytes: {MAX_HEADER_BYTES:,} at most are read")
    return data


def read_arrays(data: bytes) -> dict[str, np.ndarray]:
    """Safetensors as arrays."""
    return safetensors.numpy.load(check_header(data))


def is_path(target: Any, method: str) -> bool:
    """Whether a path was given, rather than a file that is open to "read" or "write"; anything else is refused."""
    found = isinstance(target, str | pathlib.Path)
    if not (found or hasattr(target, method)) or (found and not pathlib.Path(target).name) or "\0" in str(target):
        raise TypeError(f"{target!r} is no file: give a path, or a file that is open to {method}")
    return found


def write(target: Target, kind: str, files: Mapping[str, Buffer]) -> None:
    """Write `files` as an archive of this kind. A path is replaced atomically, once the bytes are on the disk."""
    if not is_path(target, "write"):
        _write_zip(cast(BinaryIO, target), kind, files)
        return
    with replacing(pathlib.Path(cast(str, target)), sum(map(len, files.values()))) as file:
        _write_zip(file, kind, files)


def _write_zip(file: BinaryIO, kind: str, files: Mapping[str, Buffer]) -> None:
    listed = {name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in files.items()}
    manifest = json.dumps({"kind": kind, "version": VERSION, "files": listed}, indent=1)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(MANIFEST, manifest)
        for name, data in files.items():
            archive.writestr(name, data)


def read(source: Target, kind: str) -> dict[str, bytes]:
    """Return the files of an archive of this kind, each checked against the manifest; nothing is unpacked to disk."""
    if is_path(source, "read"):
        with pathlib.Path(cast(str, source)).open(
            "rb"
        ) as file:  # a missing file is a FileNotFoundError, not a CheckpointError
            return _read(file, kind, str(source))
    return _read(cast(BinaryIO, source), kind, "the given file")


class _Bounded:
    """A file of which `most` bytes are read at a time."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self.most = file, most

    def read(self, size: int = -1) -> bytes:
        if size > self.most:
            raise CheckpointError(f"{size:,} bytes were to be read at once: {self.most:,} at most are")
        return self._file.read(size)  # to the end only close to it: a comment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _read(file: BinaryIO, kind: str, name: str) -> dict[str, bytes]:
    try:
        size = file.seek(0, io.SEEK_END)
        bounded = _Bounded(file, MAX_DIRECTORY_BYTES)
        with zipfile.ZipFile(cast(BinaryIO, bounded)) as archive:
            bounded.most = size
            _check_places(archive, size, name)
            return _read_zip(archive, kind, name)
    except CheckpointError:
        raise
    except DAMAGE as error:
        raise CheckpointError(f"{name} is damaged or not a checkpoint: {error}") from error


def _check_places(archive: zipfile.ZipFile, size: int, name: str) -> None:
    """Refuse members that share bytes: together they would be read as more than the file is."""
    end = 0
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise CheckpointError(f"{name} is damaged: {info.filename!r} lies in another member")
        end = info.header_offset + LOCAL_HEADER_BYTES + len(info.filename) + info.compress_size
    if end > size:
        raise CheckpointError(f"{name} is damaged: its members take {end:,} bytes, it has {size:,}")


def _read_zip(archive: zipfile.ZipFile, kind: str, name: str) -> dict[str, bytes]:
    members = {info.filename: info for info in archive.infolist()}
    if MANIFEST not in members:
        stable_baselines = {"data", "policy.pth"} <= members.keys()
        hint = " (it looks like one of Stable-Baselines3, which may run code when loaded)" if stable_baselines else ""
        raise CheckpointError(f"{name} holds no {MANIFEST}: it was not written by wolpertinger{hint}")
    manifest = _read_manifest(archive, members[MANIFEST], name)
    if manifest["kind"] != kind:
        raise CheckpointError(f"{name} is a {manifest['kind']!r}, a {kind!r} was expected")
    if manifest["version"] != VERSION:
        raise CheckpointError(f"{name} is of version {manifest['version']}, this wolpertinger reads {VERSION}")
    listed = manifest["files"]
    if members.keys() - {MANIFEST} != listed.keys() or len(members) != len(archive.infolist()):
        strange = sorted((members.keys() - {MANIFEST}) ^ listed.keys()) or ["a name twice"]
        raise CheckpointError(f"{name} does not hold what its manifest lists: {', '.join(map(repr, strange))}")
    return {member: _read_member(archive, members[member], facts, name) for member, facts in listed.items()}


def _read_manifest(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> dict[str, Any]:
    if info.file_size > MAX_MANIFEST_BYTES or info.compress_type != zipfile.ZIP_STORED:
        raise CheckpointError(f"{name} has a manifest of {info.file_size} bytes: {MAX_MANIFEST_BYTES} at most are read")
    try:
        manifest = json.loads(archive.read(info))
        right = manifest.keys() == {"kind", "version", "files"}
        right = right and all(facts.keys() == {"sha256", "bytes"} for facts in manifest["files"].values())
    except (ValueError, AttributeError):
        right = False
    if not right:
        raise CheckpointError(f"{name} has a manifest that cannot be read")
    return manifest


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, facts: dict[str, Any], name: str) -> bytes:
    # Only uncompressed members: none can unpack to more than the size of the file.
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != facts["bytes"]:
        raise CheckpointError(f"{name}: {info.filename} has {info.file_size} bytes, {facts['bytes']} were saved")
    data = archive.read(info)
    if hashlib.sha256(data).hexdigest() != facts["sha256"]:
        raise CheckpointError(f"{name}: {info.filename} is damaged, its SHA-256 is not the one in the manifest")
    return data
