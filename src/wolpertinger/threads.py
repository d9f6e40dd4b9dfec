"""The one place that decides about threads.

Two OpenMP pools on two cores wait on each other: beside torch's, FAISS's own pool made single lookups 500 times slower.
So torch keeps its pool for products, a batch of lookups is divided among Python threads, and FAISS gets one thread in
each of them.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeVar

import torch

Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()
_own = threading.local()
os.register_at_fork(after_in_child=_pools.clear)  # a child process has none of its parent's threads


def set_threads(n: int) -> None:
    """Use n threads for networks, and n for batches of lookups."""
    if n < 1:
        raise ValueError(f"threads={n}: give at least 1")
    torch.set_num_threads(n)


@contextmanager
def using_threads(n: int) -> Iterator[None]:
    """`set_threads(n)` for a while."""
    before = count_threads()
    set_threads(n)
    try:
        yield
    finally:
        set_threads(before)


def count_threads() -> int:
    """How many threads lookups may use: as many as torch."""
    return torch.get_num_threads()


def divide(work: Callable[[slice], Result], n: int, *, least: int) -> list[Result]:
    """Results of `work` on slices that cover n rows in order: one per thread, of at least `least` rows each.

    Work that divides its own work again does all of it itself: it would wait for its own thread.
    """
    threads = 1 if getattr(_own, "is_worker", False) else count_threads()
    parts = max(1, min(threads, n // max(1, least)))
    bounds = [n * part // parts for part in range(parts + 1)]
    slices = [slice(start, stop) for start, stop in pairwise(bounds)]
    if parts == 1:
        return [work(slices[0])]
    # The caller does the first part itself: one hand-over less.
    others = [_pool(parts - 1).submit(work, rows) for rows in slices[1:]]
    return [work(slices[0]), *(other.result() for other in others)]


def _pool(workers: int) -> ThreadPoolExecutor:
    with _lock:
        if workers not in _pools:
            _pools[workers] = ThreadPoolExecutor(workers, thread_name_prefix="wolpertinger", initializer=_mark)
        return _pools[workers]


def _mark() -> None:
    _own.is_worker = True
