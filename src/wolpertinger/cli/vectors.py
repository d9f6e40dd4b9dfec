"""Vectors and queries of the user's own, from .npy files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wolpertinger.index import Store, check_queries, check_vectors
from wolpertinger.index.base import Vectors
from wolpertinger.index.likely_queries import NOISE, likely_queries

Draw = Callable[[int, int], npt.NDArray]  # how many queries, by which seed
NOISY = f"queries are rows plus Gaussian noise of {NOISE} standard deviations per dimension, clipped to the table's box"


@dataclass(frozen=True, eq=False)
class LookupSet:
    """A table of vectors (n, dim), float32 in C order, and where its queries come from."""

    name: str
    description: str
    vectors: Vectors
    draw: Draw

    def queries(self, count: int, seed: int) -> Vectors:
        """Queries (count, dim), fewer only if they come from a file that has no more; another seed gives other ones."""
        return np.ascontiguousarray(self.draw(count, seed), dtype=np.float32)


def from_file(vectors_path: Path, queries_path: Path | None = None, *, rows: int | None = None) -> LookupSet:
    """The vectors of a .npy file, memory-mapped; without a file of queries, those are rows plus noise.

    Queries from a file are dealt out: an even seed gets its even rows, an odd one its odd rows, at most `count`.
    """
    vectors = check_vectors(_read(vectors_path)[:rows])
    if queries_path is None:
        return LookupSet(vectors_path.stem, NOISY, vectors, near_rows(vectors))
    stored = _read(queries_path)
    if len(stored) < 2:
        raise ValueError(
            f"{queries_path} has {len(stored)} queries: give at least 2, to tune on one and measure another"
        )
    try:
        check_queries(stored, vectors.shape[1])
    except (ValueError, TypeError) as error:
        raise ValueError(f"{queries_path}: {error}") from error

    def deal(count: int, seed: int) -> npt.NDArray:
        return stored[seed % 2 :: 2][:count]

    return LookupSet(vectors_path.stem, f"queries from {queries_path.name}", vectors, deal)


def _read(path: Path) -> npt.NDArray:
    """An array of a .npy file, memory-mapped, or an error that says what the file is instead."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} is no .npy file of numbers: save a 2-D array with numpy.save") from error
    if not isinstance(array, np.ndarray):  # np.load opens .npz archives too
        raise ValueError(f"{path} is an archive of arrays: save one 2-D array with numpy.save")
    if array.ndim != 2:
        raise ValueError(f"{path} holds an array of shape {array.shape}: give (rows, dim)")
    return array


def near_rows(vectors: Vectors) -> Draw:
    """Queries that are rows plus noise."""
    store = Store(vectors)
    return lambda count, seed: likely_queries(store, count, seed)
