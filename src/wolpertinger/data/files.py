"""Logs from pandas, Arrow and Parquet: columns by name; files larger than memory become memory-mapped columns."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.data.checking import ROWS_AT_ONCE, LogError
from wolpertinger.data.columns import Columns
from wolpertinger.data.transitions import Transitions
from wolpertinger.imports import needs_extra
from wolpertinger.settings import check_kind, show

ARGUMENTS = {
    **{"observation": "observations", "action": "actions", "reward": "rewards", "terminated": "terminated"},
    **{"truncated": "truncated", "next_observation": "next_observations", "episode": "episodes", "time": "times"},
    **{"propensity": "propensities", "allowed": "allowed"},
}
"""Of `Transitions`, by the field of `Columns`."""
IN_MEMORY = 2**28  # bytes of a file up to which its columns are kept in memory

Array = npt.NDArray[Any]


def as_columns(columns: Columns | Mapping[str, str] | None) -> Columns:
    """Names of columns from what the user gives."""
    check_kind("columns", columns, Columns | Mapping | None, "Columns(...), or a dict of names")
    if isinstance(columns, Mapping):
        try:
            return Columns(**columns)
        except TypeError as error:
            raise LogError(f"columns={show(columns)}: give names of {', '.join(ARGUMENTS)}") from error
    return columns or Columns()


def from_pandas(frame: Any, columns: Columns | Mapping[str, str] | None = None) -> Transitions:
    """A log from a data frame."""
    with needs_extra("logs", "a log in pandas"):
        import pyarrow as pa
    try:
        return from_arrow(pa.Table.from_pandas(frame, preserve_index=False), columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise LogError(f"the data frame has a column of mixed types: {str(error).splitlines()[0]}") from error


def from_arrow(table: Any, columns: Columns | Mapping[str, str] | None = None) -> Transitions:
    """A log from an Arrow table."""
    found = as_columns(columns).find(table.column_names)
    parts = {field: _read_field(field, names, table) for field, names in found.items()}
    return _make({field: _join(field, [part]) for field, part in parts.items()})


def read(path: Path, columns: Columns | Mapping[str, str] | None = None, *, in_memory: int = IN_MEMORY) -> Transitions:
    """A log from a Parquet file, or from all of a folder in the order of their names.

    What is larger than `in_memory` bytes is copied, a block at a time, to memory-mapped files that are removed with the
    log: as much as they are large must be free where temporary files go (TMPDIR).
    """
    with needs_extra("logs", "a log in Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    files = _files_of(path)
    try:
        opened = [pq.ParquetFile(file, memory_map=True) for file in files]
    except (pa.ArrowInvalid, OSError) as error:
        raise LogError(f"{path} is no Parquet file, or not all of one: {str(error).splitlines()[0]}") from error
    schema = opened[0].schema_arrow
    for file, part in zip(files, opened, strict=True):
        if part.schema_arrow.names != schema.names or part.schema_arrow.types != schema.types:
            raise LogError(f"{file.name} has other columns than {files[0].name}: give files of one form")
    found = as_columns(columns).find(schema.names)
    size = sum(part.metadata.row_group(i).total_byte_size for part in opened for i in range(part.num_row_groups))
    blocks = _blocks(opened, found)
    if size <= in_memory:
        gathered: dict[str, list[Any]] = {field: [] for field in found}
        for block in blocks:
            for field, part in block.items():
                gathered[field].append(part)
        return _make({field: _join(field, parts) for field, parts in gathered.items()})
    return _map(blocks)


def _files_of(path: Path) -> list[Path]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: give a Parquet file, or a folder of them")
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise LogError(f"{path} holds no .parquet files")
    return files


def _blocks(opened: list[Any], found: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    names = [name for group in found.values() for name in group]
    for file in opened:
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=names):
            table = pa.Table.from_batches([batch])
            yield {field: _read_field(field, group, table) for field, group in found.items()}


def _read_field(field: str, names: list[str], table: Any) -> Any:
    """One field as an array (rows, ...); what is allowed as (values, lengths)."""
    parts = [table.column(name).combine_chunks() for name in names]
    for name, part in zip(names, parts, strict=True):
        if part.null_count:
            rows = np.flatnonzero(np.asarray(part.is_null()))[:5]
            raise LogError(f"{name} is missing in rows {', '.join(map(str, rows))} of a block: fill or leave out them")
    if field == "allowed":
        return np.asarray(parts[0].flatten()), np.asarray(parts[0].value_lengths()).astype(np.int64)
    arrays = [_to_numpy(name, part) for name, part in zip(names, parts, strict=True)]
    return arrays[0] if len(arrays) == 1 and names[0][-2:] != "_0" else np.stack(arrays, axis=1)


def _to_numpy(name: str, part: Any) -> Array:
    import pyarrow as pa

    if pa.types.is_list(part.type) or pa.types.is_large_list(part.type) or pa.types.is_fixed_size_list(part.type):
        lengths = np.asarray(part.value_lengths())
        flat = part.flatten()
        if len(lengths) and (lengths != lengths[0]).any():
            row = int(np.argmax(lengths != lengths[0]))
            told = f"{lengths[row]} numbers in row {row} of a block, {lengths[0]} in the first"
            raise LogError(f"{name} has {told}: give as many in every row")
        if flat.null_count:
            raise LogError(f"{name} holds numbers that are missing: fill them, or leave out the rows")
        return _to_numpy(name, flat).reshape(len(lengths), -1)
    if pa.types.is_string(part.type) or pa.types.is_large_string(part.type):
        return np.asarray(part.to_pylist(), dtype=np.str_)
    return part.to_numpy(zero_copy_only=False)


def _join(field: str, parts: list[Any]) -> Any:
    if field == "allowed":
        lengths = np.concatenate([own for _, own in parts])
        return np.concatenate([values for values, _ in parts]), np.concatenate([[0], np.cumsum(lengths)])
    try:
        return np.concatenate(parts) if len(parts) != 1 else parts[0]
    except ValueError as error:
        raise LogError(f"{field} is not of one shape in all rows: {error}") from error


def _make(parts: dict[str, Any]) -> Transitions:
    if not parts or not all(len(part) for part in parts.values()):
        raise LogError("the log has no rows: give at least one transition")
    return Transitions(**{ARGUMENTS[field]: part for field, part in parts.items()})


def _map(blocks: Iterator[dict[str, Any]]) -> Transitions:
    """Columns in memory-mapped files, written block by block."""
    folder = Path(tempfile.mkdtemp(prefix="wolpertinger-log-"))
    try:
        writers: dict[str, _Writer] = {}
        for block in blocks:
            if "allowed" in block:
                block["allowed.values"], block["allowed"] = block["allowed"]
            for name, part in block.items():
                if name not in writers:
                    writers[name] = _Writer(folder / f"{name}.raw", part)
                writers[name].write(part)
        columns: dict[str, Any] = {name: writer.close() for name, writer in writers.items()}
        if "allowed" in columns:
            columns["allowed"] = columns.pop("allowed.values"), np.concatenate([[0], np.cumsum(columns["allowed"])])
        log = _make(columns)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(log, shutil.rmtree, folder, ignore_errors=True)
    return log


class _Writer:
    """One column as a raw file, which becomes a memory map."""

    def __init__(self, path: Path, first: Array) -> None:
        self.path, self.shape = path, first.shape[1:]
        self.dtype = np.dtype(np.float32) if first.dtype == np.float64 and first.ndim > 1 else first.dtype
        self.rows, self.file = 0, path.open("wb")

    def write(self, block: Array) -> None:
        if block.shape[1:] != self.shape:
            raise LogError(f"{self.path.stem} has shape {block.shape[1:]} in row {self.rows:,}, {self.shape} before")
        self.file.write(np.ascontiguousarray(block, self.dtype).data)
        self.rows += len(block)

    def close(self) -> Array:
        self.file.close()
        return np.memmap(self.path, self.dtype, "r", shape=(self.rows, *self.shape)) if self.rows else np.empty(0)
