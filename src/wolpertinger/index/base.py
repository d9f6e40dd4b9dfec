"""The `Index` protocol, and the argument checks that indexes and action sets share."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from wolpertinger.settings import check_memory, show

Vectors = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

CHUNK_BYTES = 1 << 22  # of temporaries in a pass over a table: small enough for the cache
QUERY_BYTES = 12  # of a number of a query, in float32 and float64


@runtime_checkable
class Index(Protocol):
    """Nearest-neighbour search over the rows of a store. Every result has k distinct valid ids, never -1.

    Rows added to the store or removed from it take effect at the next search.
    """

    @property
    def n(self) -> int:
        """Number of rows, without the removed ones."""

    @property
    def dim(self) -> int:
        """Dimensions of a row."""

    def search(self, queries: npt.ArrayLike, k: int) -> Ids:
        """Return the ids (batch, k) of the rows nearest to each query (batch, dim) by L2 distance, ties by id."""


def chunks(n: int, row_bytes: int) -> Iterator[slice]:
    """Yield slices that cover n rows, each of about CHUNK_BYTES."""
    step = max(1, CHUNK_BYTES // max(1, row_bytes))
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


def as_array(name: str, given: Any) -> npt.NDArray[Any]:
    """Return what a user gives as an array, if it is one; a mask, which numpy would drop, is refused."""
    parts = given if isinstance(given, list | tuple) else ()
    if isinstance(given, np.ma.MaskedArray) or any(isinstance(part, np.ma.MaskedArray) for part in parts):
        raise TypeError(f"{name}: a masked array; give a plain one, such as x.filled(0)")
    try:
        return np.asarray(given)
    except Exception as error:  # rows of several lengths, a tensor of a graph, an object of the user's own
        raise TypeError(f"{name}: no array of numbers ({error})") from error


def check_vectors(vectors: npt.ArrayLike) -> Vectors:
    """Return a finite float32 table (n, dim) in C order; not a copy if it is one already, memory-mapped or not."""
    table = as_array("vectors", vectors)
    if table.dtype.kind not in "fiu":
        raise TypeError(f"vectors are of type {table.dtype}: give a 2-D array of real numbers (n, dim)")
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"vectors have shape {table.shape}: give (n, dim) with at least one row and one dimension")
    if table.dtype != np.float32 or not table.flags.c_contiguous:
        table = _convert(table)
    check_finite(table, "vectors")
    return table


def _convert(table: npt.NDArray[Any]) -> Vectors:
    check_memory(f"vectors of shape {table.shape}", 4 * table.size)
    converted = np.empty(table.shape, np.float32)
    with np.errstate(over="ignore"):  # values too large for float32 become inf, which check_finite reports
        for rows in chunks(len(table), table.shape[1] * 8):
            converted[rows] = table[rows]
    return converted


def check_finite(table: npt.NDArray[Any], name: str) -> None:
    """Raise a ValueError that lists the rows of a 2-D `table` that contain NaN or inf."""
    if table.nbytes <= CHUNK_BYTES and np.isfinite(table).all():
        return
    bad = [rows.start + np.flatnonzero(~np.isfinite(table[rows]).all(axis=1)) for rows in chunks(*_row_bytes(table))]
    offending = np.concatenate(bad)
    if len(offending):
        listed = ", ".join(map(str, offending[:5])) + (", ..." if len(offending) > 5 else "")
        raise ValueError(
            f"{name} must be finite float32 numbers: {len(offending)} of {len(table)} rows are not (row {listed})"
        )


def _row_bytes(table: npt.NDArray[Any]) -> tuple[int, int]:
    return len(table), table.shape[1] * table.itemsize


def check_queries(queries: npt.ArrayLike, dim: int) -> Vectors:
    """Return queries as float32 (batch, dim); the batch may be empty."""
    array = as_array("queries", queries)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"queries are of type {array.dtype}: give real numbers (batch, {dim})")
    if array.ndim != 2 or array.shape[1] != dim:
        raise ValueError(f"queries have shape {array.shape}: give (batch, {dim})")
    check_memory("queries", QUERY_BYTES * array.size)
    if array.dtype != np.float32:
        with np.errstate(over="ignore"):  # only where needed: it is slow beside the other checks of a small batch
            array = array.astype(np.float32)
    points = np.ascontiguousarray(array)
    if len(points):
        check_finite(points, "queries")
    return points


def check_k(k: int, n: int) -> int:
    """Return k as an int, if it is a count from 1 to n; every index and action set raises this same error."""
    accepted = f"give a count from 1 to {show(n)} (int)"
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise TypeError(f"k={show(k)} is not a count: {accepted}")
    if not 1 <= k <= n:
        raise ValueError(f"k={show(int(k))} is out of range for {show(n)} actions: {accepted}")
    return int(k)


def read_ids(ids: npt.ArrayLike) -> Ids:
    """Return integers as int64; unsigned ones that do not fit become negative."""
    array = as_array("actions", ids)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"actions are of type {array.dtype}: give integers, the ids or digits of actions")
    return array.astype(np.int64, copy=False)


def check_ids(ids: npt.ArrayLike, n: int | Ids) -> Ids:
    """Return ids as int64, if they are integers from 0 to n - 1 (n may be per digit)."""
    array = read_ids(ids)
    # Seen as unsigned, negative ids are huge: one comparison checks both ends.
    outside = array.view(np.uint64) >= np.asarray(n, np.uint64)
    if outside.any():
        top = int(np.max(n)) - 1
        raise ValueError(f"action {array[outside].flat[0]} is not in the set: give ids or digits from 0 to {top}")
    return array
