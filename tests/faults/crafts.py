"""What a malicious writer may write: changes of JSON, of tensors, of FAISS's bytes and of the zip itself."""

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from tests.faults import craft_values as values
from wolpertinger import archive

Files = dict[str, bytes]
Change = Callable[[Files, random.Random], Files]


@dataclass(frozen=True)
class Craft:
    """A change of a sample. Where the content contradicts itself it must be refused, and not just do no harm."""

    sample: str
    name: str
    change: Change | None = None
    raw: Callable[[bytes, random.Random], bytes] | None = None
    must_be_refused: bool = True

    def apply(self, path: Path, kind: str, rng: random.Random) -> None:
        if self.raw is not None:
            path.write_bytes(self.raw(path.read_bytes(), rng))
        if self.change is not None:
            archive.write(path, kind, self.change(archive.read(path, kind), rng))


@cache
def all_crafts() -> list[Craft]:
    return [*_json_crafts(), *_tensor_crafts(), *_faiss_crafts(), *_zip_crafts(), *_form_crafts()]


def _json_crafts() -> Iterator[Craft]:
    """One value of a JSON file replaced by another."""
    for sample, file, place, found in values.JSON:
        for value, refused in found:
            name = f"{file}: {place} = {str(value)[:60]}"
            yield Craft(sample, name, partial(_with_value, file, place, value), must_be_refused=refused)


def _with_value(file: str, place: str, value: Any, files: Files, rng: random.Random) -> Files:
    tree = json.loads(files[file])
    *way, last = place.split("/")
    part = tree
    for name in way:
        part = part[int(name) if isinstance(part, list) else name]
    if value is values.GONE:
        del part[last]
    else:
        part[int(last) if isinstance(part, list) else last] = value
    return {**files, file: json.dumps(tree).encode()}


def _tensor_crafts() -> Iterator[Craft]:
    """One tensor of a file replaced, left out or added."""
    for sample, file, tensor, changes in values.TENSORS:
        for change in changes:
            yield Craft(sample, f"{file}: {tensor} {change}", partial(_with_tensor, file, tensor, change))


def _with_tensor(file: str, name: str, change: str, files: Files, rng: random.Random) -> Files:
    tensors = safetensors.numpy.load(files[file])
    key = next(key for key in sorted(tensors) if key.endswith(name))
    made = values.CHANGES[change](tensors[key])
    if change == "renamed":
        tensors[key + ".evil"] = tensors.pop(key)
    elif made is None:
        del tensors[key]
    else:
        tensors[key] = np.ascontiguousarray(made)
    return {**files, file: safetensors.numpy.save(tensors)}


def _faiss_crafts() -> Iterator[Craft]:
    """Bytes of an index changed: those that say how long something is stand near the beginning of its parts."""
    for sample in ("IVF8,Flat", "IVF8,PQ4x4fs", "HNSW8"):
        for number in range(8):
            change = partial(_with_bytes, "index-0.faiss", number)
            yield Craft(sample, f"index-0.faiss: bytes, way {number}", change, must_be_refused=False)
    for recipe in values.RECIPES:
        yield Craft("IVF8,Flat", f"recipe {recipe}", partial(_with_recipe, recipe, True))
        yield Craft("IVF8,Flat", f"recipe {recipe}, not built", partial(_with_recipe, recipe, False))


def _with_bytes(file: str, number: int, files: Files, rng: random.Random) -> Files:
    data = bytearray(files[file])
    place = rng.randrange(min(len(data), 400)) if number < 5 else rng.randrange(len(data))
    data[place : place + 8] = rng.choice([b"\xff", b"\xff" * 8, b"\0" * 8, b"\x7f", struct.pack("<q", 2**33), b"\x01"])
    return {**files, file: bytes(data)}


def _with_recipe(recipe: str, is_listed: bool, files: Files, rng: random.Random) -> Files:
    config = json.loads(files["table.json"])
    config |= {"index": recipe, "indexes": [recipe] if is_listed else []}
    return {**files, "table.json": json.dumps(config).encode()}


def _form_crafts() -> Iterator[Craft]:
    """Files that are no JSON and no safetensors, or too much of them."""
    of_json = [("table", "config.json"), ("table", "training.json"), ("tuned", "table.json"), ("run", "segments.json")]
    of_json += [("buffer", "replay_buffer.json"), ("slate", "actions/slate.json"), ("ids", "actions/ids.json")]
    for sample, file in of_json:
        for name, data in values.BAD_JSON.items():
            yield Craft(sample, f"{file}: {name}", partial(_with_file, file, data))
    of_tensors = [
        ("table", "networks.safetensors"),
        ("table", "optimizers.safetensors"),
        ("tuned", "vectors.safetensors"),
    ]
    of_tensors += [("product", "actions/levels.safetensors"), ("buffer", "replay_buffer.safetensors")]
    for sample, file in of_tensors:
        for name, data in values.BAD_TENSORS.items():
            yield Craft(sample, f"{file}: {name}", partial(_with_file, file, data))
    for sample, file in (("table", "config.json"), ("table", "networks.safetensors"), ("tuned", "index-0.faiss")):
        yield Craft(
            sample, f"{file} left out", partial(_with_file, file, None), must_be_refused=file != "index-0.faiss"
        )


def _with_file(file: str, data: Callable[[], bytes] | None, files: Files, rng: random.Random) -> Files:
    rest = {name: own for name, own in files.items() if name != file}
    return rest if data is None else {**rest, file: data()}


def _zip_crafts() -> Iterator[Craft]:
    for name in ("overlapping", "many entries", "bomb", "encrypted", "name twice", "elsewhere", "long directory"):
        yield Craft("table", f"zip: {name}", raw=partial(_with_zip, name))
    for name in ("comment", "prefix"):
        yield Craft("table", f"zip: {name}", raw=partial(_with_zip, name), must_be_refused=False)


def _with_zip(name: str, whole: bytes, rng: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(whole)) as source:
        files = {info.filename: source.read(info) for info in source.infolist()}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if name == "bomb" else zipfile.ZIP_STORED) as target:
        if name == "bomb":
            files["networks.safetensors"] = bytes(400 << 20)
        for own, data in files.items():
            target.writestr(own, data)
        if name == "elsewhere":
            target.writestr("../outside/evil", b"evil")
        if name == "name twice":
            target.writestr("config.json", files["config.json"])
        if name == "many entries":
            for number in range(25_000):
                target.writestr(f"{number}", b"")
        if name == "overlapping":
            _overlap(target)
    data = bytearray(file.getvalue())
    if name == "encrypted":
        data = data.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")
    if name == "comment":
        data[-2:] = struct.pack("<H", 5)
        data += b"hello"
    if name == "long directory":
        data[-10:-6] = struct.pack("<I", 2**31)
    return b"#!/bin/sh\n" + bytes(data) if name == "prefix" else bytes(data)


def _overlap(target: zipfile.ZipFile) -> None:
    """450 names for the same 4 MB, in a manifest that lists each."""
    data = bytes(4 << 20)
    target.writestr("big", data)
    info, manifest = target.getinfo("big"), json.loads(target.read(archive.MANIFEST))
    facts = {"sha256": archive.hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    manifest["files"] |= dict.fromkeys(["big", *(f"big{number}" for number in range(450))], facts)
    for number in range(450):
        other = zipfile.ZipInfo(f"big{number}")
        for name in ("header_offset", "CRC", "compress_size", "file_size", "flag_bits", "external_attr"):
            setattr(other, name, getattr(info, name))
        target.filelist.append(other)
        target.NameToInfo[other.filename] = other
    text = json.dumps(manifest).encode()
    target.filelist = [own for own in target.filelist if own.filename != archive.MANIFEST]
    del target.NameToInfo[archive.MANIFEST]
    target.writestr(archive.MANIFEST, text)
