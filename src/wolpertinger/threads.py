"""The one place that decides how many threads run, and which work they share.

Torch divides each of its products among its own OpenMP threads, which keep spinning for some milliseconds afterwards: a
second pool then has to share the cores with threads that only wait. So work that consists of torch's products stays in
the calling thread, FAISS uses torch's OpenMP threads where it is linked to the same library (index/faiss_build.py), and
`divide` is for numpy and for a FAISS that is not.

On a busy machine the same spinning takes the processor from the very thread that is waited for, and an operation of
microseconds takes as long as the scheduler's patience, a hundred times in an update. So small work is not divided
unless somebody says that the cores are ours, with `set_threads`: `threads_for` runs it in the calling thread, whatever
number of threads torch has, and restores that number.
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

MAX_THREADS = max(64, 4 * (os.cpu_count() or 1))  # far more cannot be made, and OpenMP then ends the process
SHARED_FROM = 2**19  # numbers in an array from which on several threads are worth their risk

_local = threading.local()
_is_forked = False
_lock = threading.Lock()
_hosts, _inside = 1, 0  # the host's number of threads, and blocks of `threads_for` that are being run
_shares_small_work = False


def set_threads(n: int, *, small_work: bool = True) -> None:
    """Use n threads for torch and for our parallel loops, and for small work too: nobody else needs the cores."""
    global _shares_small_work
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_THREADS:
        raise ValueError(f"threads={n!r}: give a whole number from 1 to {MAX_THREADS}")
    _shares_small_work = small_work
    torch.set_num_threads(n)


def shares_small_work() -> bool:
    """Return whether small work has several threads as well, which changes how its results are rounded."""
    return _shares_small_work


@contextmanager
def using_threads(n: int) -> Iterator[None]:
    """`set_threads(n)` inside a `with` block."""
    before, small_work = count_threads(), _shares_small_work
    set_threads(n)
    try:
        yield
    finally:
        set_threads(before, small_work=small_work)


@contextmanager
def threads_for(numbers: int) -> Iterator[None]:
    """One thread inside a `with` block whose largest array has so many numbers, if that is too little to share and
    nobody has called `set_threads`.

    Torch counts threads by thread: a thread of the host's own that first uses torch while another one is inside such a
    block keeps one thread until it sets its number.
    """
    global _hosts, _inside
    if numbers >= SHARED_FROM or _shares_small_work or getattr(_local, "is_alone", False):
        yield
        return
    with _lock:
        _hosts = _hosts if _inside else torch.get_num_threads()  # not what another thread's block has made of it
        _inside += 1
    _local.is_alone = True
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(_hosts)
        _local.is_alone = False
        with _lock:
            _inside -= 1


def count_threads() -> int:
    """Return the number of threads: torch's, or 1 inside work that `divide` has already divided."""
    return 1 if getattr(_local, "is_divided", False) else torch.get_num_threads()


def is_forked() -> bool:
    """Return whether this process was forked: it lacks its parent's OpenMP threads, and OpenMP would wait for them."""
    return _is_forked


class Guard:
    """A lock for changes. A forked child finds it free, and a signal handler amid its own thread's change is turned
    away instead of waiting for ever. Copies have one of their own.
    """

    def __init__(self) -> None:
        self._lock, self._is_held, self._process = threading.RLock(), False, os.getpid()

    @contextmanager
    def taken(self, *, waits: bool = True) -> Iterator[bool]:
        """Whether it is ours in a `with` block: not where this thread has it already, or another one and we do not
        wait.
        """
        if self._process != os.getpid():
            self._lock, self._is_held, self._process = threading.RLock(), False, os.getpid()
        if not self._lock.acquire(blocking=waits):
            yield False
            return
        ours = not self._is_held
        self._is_held = True
        try:
            yield ours
        finally:
            self._is_held = not ours
            self._lock.release()

    def __reduce__(self) -> tuple[type["Guard"], tuple[()]]:
        return Guard, ()


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
    global _is_forked, _lock, _inside, _shares_small_work
    _is_forked, _lock, _inside, _shares_small_work = True, threading.Lock(), 0, False
    _pool.cache_clear()
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_after_fork)
