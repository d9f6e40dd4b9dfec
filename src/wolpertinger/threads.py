"""The one place that decides how many threads run, and which work they share.

Torch divides each of its products among its own OpenMP threads, which keep spinning for some milliseconds afterwards: a
second pool then has to share the cores with threads that only wait. So work that consists of torch's products stays in
the calling thread, FAISS uses torch's OpenMP threads where it is linked to the same library (index/faiss_build.py), and
`divide` is for numpy and for a FAISS that is not.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TypeVar

import torch

Result = TypeVar("Result")

_local = threading.local()
_is_forked = False


def set_threads(n: int) -> None:
    """Use n threads for torch and for our parallel loops."""
    if n < 1:
        raise ValueError(f"threads={n}: give at least 1")
    torch.set_num_threads(n)


@contextmanager
def using_threads(n: int) -> Iterator[None]:
    """`set_threads(n)` inside a `with` block."""
    before = count_threads()
    set_threads(n)
    try:
        yield
    finally:
        set_threads(before)


def count_threads() -> int:
    """Return the number of threads: torch's, or 1 inside work that `divide` has already divided."""
    return 1 if getattr(_local, "is_divided", False) else torch.get_num_threads()


def is_forked() -> bool:
    """Return whether this process was forked: it lacks its parent's OpenMP threads, and OpenMP would wait for them."""
    return _is_forked


def divide(work: Callable[[slice], Result], n: int, *, least: int) -> list[Result]:
    """Return the results of `work` on slices that cover n rows in order: one per thread, each of at least `least` rows.

    The calling thread takes the first slice, and the others run in its gradient mode. An error in any slice is raised
    once all have ended. A nested `divide` is one slice.
    """
    parts = max(1, min(count_threads(), n // max(1, least)))
    if parts == 1:
        return [work(slice(0, n))]
    bounds = [n * part // parts for part in range(parts + 1)]
    first, *others = (slice(start, stop) for start, stop in pairwise(bounds))
    inference, gradients = torch.is_inference_mode_enabled(), torch.is_grad_enabled()  # of this thread

    def run(rows: slice) -> Result:
        _local.is_divided = True
        try:
            return work(rows)
        finally:
            _local.is_divided = False

    def run_in_worker(rows: slice) -> Result:
        with torch.inference_mode(inference), torch.set_grad_enabled(gradients):
            return run(rows)

    futures = [_pool(parts - 1).submit(run_in_worker, rows) for rows in others]
    try:
        own = run(first)
    finally:
        wait(futures)
    return [own, *(future.result() for future in futures)]


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "wolpertinger")


def _after_fork() -> None:
    """Forget the parent's threads: a forked child has none of them, and torch's products would wait for theirs."""
    global _is_forked
    _is_forked = True
    _pool.cache_clear()
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_after_fork)
