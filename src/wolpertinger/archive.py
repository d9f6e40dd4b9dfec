"""Zip archives with a SHA-256 manifest: written atomically, and read only if every checksum matches."""

import hashlib
import io
import json
import pathlib
import struct
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

from wolpertinger.atomic import replacing

MANIFEST = "manifest.json"
VERSION = 4
MAX_MANIFEST_BYTES = 1 << 20  # it is read before anything in the file is trusted

# Exceptions that reading a damaged zip may raise.
DAMAGE = (zipfile.BadZipFile, EOFError, RuntimeError, ValueError, OverflowError, OSError, struct.error)

Target = str | pathlib.Path | io.BufferedIOBase
Buffer = bytes | memoryview


class CheckpointError(ValueError):
    """A file is damaged, or not of the expected kind; the message says why."""


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


def _read(file: BinaryIO, kind: str, name: str) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(file) as archive:
            return _read_zip(archive, kind, name)
    except CheckpointError:
        raise
    except DAMAGE as error:
        raise CheckpointError(f"{name} is damaged or not a checkpoint: {error}") from error


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
