"""How a catalogue is cut into shards, and how their answers become one."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wolpertinger.actions.base import Actions
from wolpertinger.archive import CheckpointError, read_json, readable
from wolpertinger.distributed.shard import Source
from wolpertinger.index.base import Vectors, check_vectors
from wolpertinger.index.shortlist import Distances

MANIFEST, FILE = "shards.json", "shard-{}.zip"
FORMAT = 1
SHARDS = 2  # unless the user says how many
Part = tuple[Source, Vectors | None]


@dataclass(frozen=True)
class Lookup:
    """The answer to a lookup: ids and squared distances (batch, k), nearest first."""

    ids: Actions
    distances: Distances
    missing: tuple[int, ...]
    """Numbers of the shards that did not answer: their rows were not looked at."""


def cut(vectors: Any, shards: int | None) -> list[Part]:
    """The parts of a table, or of files."""
    if isinstance(vectors, str | os.PathLike):
        path = str(Path(vectors).absolute())
        return [(Source(start, stop, path), None) for start, stop in _ranges(_rows(path), shards or SHARDS)]
    if isinstance(vectors, list | tuple) and vectors and all(isinstance(each, str | os.PathLike) for each in vectors):
        if shards not in (None, len(vectors)):
            raise ValueError(f"shards={shards} for {len(vectors)} files: each is a shard; leave it out")
        return _files([str(Path(each).absolute()) for each in vectors])
    table = check_vectors(vectors)
    return [(Source(start, stop), table[start:stop]) for start, stop in _ranges(len(table), shards or SHARDS)]


def saved_parts(folder: Path, ends: Sequence[int], vectors: Any) -> list[Part]:
    """The parts of a saved table, with the vectors that its files left out."""
    sources = [
        Source(start, stop, saved=str(folder / FILE.format(number)))
        for number, (start, stop) in enumerate(itertools.pairwise(ends))
    ]
    if missing := [source.saved for source in sources if not Path(str(source.saved)).exists()]:
        raise FileNotFoundError(f"{missing[0]} is missing: a saved table is all of its folder")
    if vectors is None:
        return [(source, None) for source in sources]
    if isinstance(vectors, list | tuple) and vectors and all(isinstance(each, str | os.PathLike) for each in vectors):
        given = _files([str(Path(each).absolute()) for each in vectors])
        return [(replace(own, saved=source.saved), None) for source, (own, _) in zip(sources, given, strict=True)]
    if isinstance(vectors, str | os.PathLike):
        return [(replace(source, path=str(Path(vectors).absolute())), None) for source in sources]
    table = check_vectors(vectors)
    return [(source, table[source.start : source.stop]) for source in sources]


def read_manifest(folder: Path) -> tuple[list[int], float | None]:
    """Where the shards of a saved table end, and the recall they keep."""
    path = folder / MANIFEST
    if not path.exists():
        raise FileNotFoundError(f"{folder} holds no {MANIFEST}: ShardedTable.save writes one")
    with readable(MANIFEST):
        found = read_json(path.read_bytes())
        if found["format"] != FORMAT:
            raise CheckpointError(f"{path} has format {found['format']}, {FORMAT} is read")
        ends = [int(end) for end in found["ends"]]
        if len(ends) < 2 or ends[0] != 0 or ends != sorted(set(ends)):
            raise ValueError(f"ends={ends}: they ascend from 0")
        return ends, found["recall"]


def merge(answers: Sequence[tuple[Actions, Distances]], k: int) -> tuple[Actions, Distances]:
    """The k nearest (batch, k) of what all shards found, ties by id."""
    ids, distances = (np.concatenate(parts, axis=1) for parts in zip(*answers, strict=True))
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)


def join_stats(answers: Sequence[dict[str, Any]]) -> dict[str, float | str]:
    """The least recall, all that was checked, and the tuning of the shard that took longest: they tune side by side."""
    found: dict[str, float | str] = {}
    for name, join in (("recall", min), ("checked", sum), ("tunings", sum), ("tuning_seconds", max)):
        if own := [answer[name] for answer in answers if name in answer]:
            found[name] = join(own)
    if names := sorted({str(answer["index"]) for answer in answers if "index" in answer}):
        found["index"] = ", ".join(names)
    return found


def _files(paths: list[str]) -> list[Part]:
    ends = np.cumsum([0, *(_rows(path) for path in paths)]).tolist()
    return [(Source(*span, path, whole=True), None) for span, path in zip(itertools.pairwise(ends), paths, strict=True)]


def _rows(path: str) -> int:
    """Rows of a .npy file, of which nothing else is read here."""
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    if mapped.ndim != 2 or mapped.dtype != np.float32 or not mapped.flags.c_contiguous or 0 in mapped.shape:
        found = f"shape {mapped.shape} and type {mapped.dtype}"
        raise ValueError(f"{path} has {found}: give a .npy file of float32 in C order, (n, dim)")
    return len(mapped)


def _ranges(rows: int, shards: int) -> list[tuple[int, int]]:
    if shards > rows:
        raise ValueError(f"shards={shards} for {rows} vectors: give {rows} at most")
    ends = [rows * number // shards for number in range(shards + 1)]
    return list(itertools.pairwise(ends))
