"""Logs from pandas, Arrow and Parquet: columns by name; files larger than memory become memory-mapped columns."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from wolpertinger.data.arrays import Array
from wolpertinger.data.checking import ROWS_AT_ONCE, LogError, refuse_rows
from wolpertinger.data.columns import Columns
from wolpertinger.imports import needs_extra
from wolpertinger.settings import check_kind, show

ARGUMENTS = {
    **{"observation": "observations", "action": "actions", "reward": "rewards", "terminated": "terminated"},
    **{"truncated": "truncated", "next_observation": "next_observations", "episode": "episodes", "time": "times"},
    **{"propensity": "propensities", "allowed": "allowed"},
}
"""Of `Transitions`, by the field of `Columns`."""
IN_MEMORY = 2**28  # bytes of a file up to which its columns are kept in memory

Log = TypeVar("Log")
Make = Callable[..., Log]
"""`Transitions`, or a class made from it."""
Names = Columns | Mapping[str, str] | None


def as_columns(columns: Names) -> Columns:
    """Names of columns from what the user gives."""
    check_kind("columns", columns, Columns | Mapping | None, "Columns(...), or a dict of names")
    if isinstance(columns, Mapping):
        try:
            return Columns(**columns)
        except TypeError as error:
            raise LogError(f"columns={show(columns)}: give names of {', '.join(ARGUMENTS)}") from error
    return columns or Columns()


def from_pandas(make: Make[Log], frame: Any, columns: Names = None) -> Log:
    """A log from a data frame."""
    with needs_extra("logs", "a log in pandas"):
        import pandas as pd
        import pyarrow as pa
    check_kind("frame", frame, pd.DataFrame, "a pandas data frame")
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise LogError(f"the data frame has a column of mixed types: {str(error).splitlines()[0]}") from error
    return from_arrow(make, table, columns)


def from_arrow(make: Make[Log], table: Any, columns: Names = None) -> Log:
    """A log from an Arrow table."""
    with needs_extra("logs", "a log in Arrow"):
        import pyarrow as pa
    check_kind("table", table, pa.Table, "an Arrow table")
    found = as_columns(columns).find(table.column_names)
    return _make(make, {field: _join([_read_field(field, names, table, 0)]) for field, names in found.items()})


def read(make: Make[Log], path: Path, columns: Names = None, *, in_memory: int = IN_MEMORY) -> Log:
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
    try:
        return _map(make, blocks) if size > in_memory else _gather(make, blocks, list(found))
    except (pa.ArrowInvalid, pa.ArrowIOError) as error:
        raise LogError(f"{path} is damaged: {str(error).splitlines()[0]}") from error


def _files_of(path: Path) -> list[Path]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: give a Parquet file, or a folder of them")
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise LogError(f"{path} holds no .parquet files")
    return files


def _blocks(opened: list[Any], found: dict[str, str | list[str]]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    names = [name for group in found.values() for name in ([group] if isinstance(group, str) else group)]
    first = 0
    for file in opened:
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=names):
            table = pa.Table.from_batches([batch])
            yield {field: _read_field(field, group, table, first) for field, group in found.items()}
            first += len(table)


def _read_field(field: str, found: str | list[str], table: Any, first: int) -> Any:
    """One field as an array (rows, ...); what is allowed as (values, lengths). Row 0 is the log's row `first`."""
    import pyarrow as pa

    names = [found] if isinstance(found, str) else found
    parts = [table.column(name).combine_chunks() for name in names]
    parts = [part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in parts]
    for name, part in zip(names, parts, strict=True):
        missing = np.asarray(part.is_null()) if part.null_count else np.zeros(len(part), np.bool_)
        refuse_rows(missing, f"{name} is missing", "fill it, or leave out these rows", first)
    if field == "allowed":
        if not _is_list(parts[0]):
            raise LogError(f"{names[0]} is {parts[0].type}: give a list of ids for each row")
        return np.asarray(parts[0].flatten()), np.asarray(parts[0].value_lengths()).astype(np.int64)
    arrays = [_to_numpy(name, part, first) for name, part in zip(names, parts, strict=True)]
    return arrays[0] if isinstance(found, str) else np.stack(arrays, axis=1)


def _is_list(part: Any) -> bool:
    import pyarrow as pa

    kind = part.type
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _to_numpy(name: str, part: Any, first: int) -> Array:
    import pyarrow as pa

    if _is_list(part):
        fixed = pa.types.is_fixed_size_list(part.type)
        lengths = np.full(len(part), part.type.list_size) if fixed else np.asarray(part.value_lengths())
        flat = part.flatten()
        other = lengths != (lengths[0] if len(lengths) else 0)
        refuse_rows(other, f"{name} has not as many numbers as in the first row", "give as many in every row", first)
        gaps = np.asarray(flat.is_null()).reshape(len(part), -1).any(axis=1) if flat.null_count else np.zeros(0, bool)
        refuse_rows(gaps, f"{name} holds numbers that are missing", "fill them, or leave out these rows", first)
        inner = _to_numpy(name, flat, first * int(lengths[0] if len(lengths) else 1))
        return inner.reshape(len(part), -1, *inner.shape[1:])
    if pa.types.is_string(part.type) or pa.types.is_large_string(part.type):
        return np.asarray(part.to_pylist(), dtype=np.str_)
    return part.to_numpy(zero_copy_only=False)


def _join(parts: list[Any]) -> Any:
    """Blocks as one; what is allowed with where each row's begins."""
    if isinstance(parts[0], tuple):
        lengths = np.concatenate([own for _, own in parts])
        return np.concatenate([values for values, _ in parts]), np.concatenate([[0], np.cumsum(lengths)])
    return np.concatenate(parts) if len(parts) != 1 else parts[0]


def _make(make: Make[Log], parts: dict[str, Any]) -> Log:
    return make(**{ARGUMENTS[field]: part for field, part in parts.items()})


def _gather(make: Make[Log], blocks: Iterator[dict[str, Any]], found: list[str]) -> Log:
    gathered: dict[str, list[Any]] = {field: [] for field in found}
    for block in blocks:
        for field, part in block.items():
            if gathered[field] and not isinstance(part, tuple):
                _require_shape(field, part, gathered[field][0].shape[1:], sum(map(len, gathered[field])))
            gathered[field].append(part)
    if not gathered[found[0]]:
        raise LogError("the log has no rows: give at least one transition")
    return _make(make, {field: _join(parts) for field, parts in gathered.items()})


def _require_shape(field: str, block: Array, shape: tuple[int, ...], row: int) -> None:
    if block.shape[1:] != shape:
        raise LogError(f"{field} has shape {block.shape[1:]} in row {row:,}, {shape} before: give as many in every row")


def _map(make: Make[Log], blocks: Iterator[dict[str, Any]]) -> Log:
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
        log = _make(make, columns)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(log, shutil.rmtree, folder, ignore_errors=True)
    return log


class _Writer:
    """One column as a raw file, which becomes a memory map."""

    def __init__(self, path: Path, first: Array) -> None:
        self.path, self.shape = path, first.shape[1:]
        is_wide = first.dtype == np.float64 and first.ndim > 1
        self.dtype = np.dtype(np.float32) if is_wide else np.dtype("U64") if first.dtype.kind == "U" else first.dtype
        self.rows, self.file = 0, path.open("wb")

    def write(self, block: Array) -> None:
        _require_shape(self.path.stem, block, self.shape, self.rows)
        if block.dtype.kind == "U" and block.dtype.itemsize > self.dtype.itemsize:
            raise LogError(f"{self.path.stem} holds names of more than 64 letters: give shorter ones, or numbers")
        self.file.write(np.ascontiguousarray(block, self.dtype).data)
        self.rows += len(block)

    def close(self) -> Array:
        self.file.close()
        return np.memmap(self.path, self.dtype, "r", shape=(self.rows, *self.shape)) if self.rows else np.empty(0)
