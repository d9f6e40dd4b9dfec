"""The one place that decides about threads.

Torch's threads spin for some milliseconds after each of its products, so any other thread has half a core, beside one
that only waits: a batch of lookups in two threads took 5.0 ms instead of 2.6. So what we divide is done by torch's own
threads (OpenMP's), which are awake, and in which torch does not divide its products again. FAISS divides its own work,
where it has the same OpenMP (index/faiss_build.py).
"""

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()
_own = threading.local()
_is_child = False
_Routine = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def set_threads(n: int) -> None:
    """Use n threads for networks, and n for what is divided."""
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
    """How many threads there are: as many as torch has; one in work that is shared already."""
    return 1 if getattr(_own, "is_sharing", False) else torch.get_num_threads()


def has_torchs_threads() -> bool:
    """Whether torch's own threads do what is divided: not in a forked child, where they are gone."""
    return _torchs_threads() is not None


def is_forked() -> bool:
    """Whether this is a child of a process whose threads it does not have: OpenMP would wait for them for ever."""
    return _is_child


def share(work: Callable[[Piece], Any], pieces: Iterable[Piece], most: int | None = None) -> None:
    """Do `work` on every piece, without gradients: each thread takes the next one until none is left, so that a thread
    that is slowed down does fewer. Work that shares its own work again does all of it itself.

    If at `most` one may, or torch's own are not to be had, the caller takes all pieces, and torch divides each of its
    products.
    """
    waiting = list(pieces)
    limits = [count_threads(), len(waiting), *([] if most is None else [most])]
    _take_all(work, waiting, min(limits) if has_torchs_threads() else 1)


def at_once(*tasks: Callable[[], Any]) -> list[Any]:
    """What each of some tasks returns, in order; they are shared, unless there are more threads than tasks: then torch
    divides what is in them.
    """
    results: dict[int, Any] = {}

    def do(number: int) -> None:
        results[number] = tasks[number]()

    share(do, range(len(tasks)), None if count_threads() <= len(tasks) else 1)
    return [results[number] for number in range(len(tasks))]


def divide(work: Callable[[slice], Result], n: int, *, least: int) -> list[Result]:
    """Results of `work` on slices that cover n rows in order: one per thread, of at least `least` rows each.

    It has no products of torch's in it: where torch's own threads are not to be had, threads of ours do it.
    """
    parts = max(1, min(count_threads(), n // max(1, least)))
    if parts == 1:
        return [work(slice(0, n))]
    bounds = [n * part // parts for part in range(parts + 1)]
    slices = [slice(start, stop) for start, stop in pairwise(bounds)]
    results: dict[int, Result] = {}

    def do(part: int) -> None:
        results[part] = work(slices[part])

    _take_all(do, range(parts), parts)
    return [results[part] for part in range(parts)]


def _take_all(work: Callable[[Piece], Any], pieces: Iterable[Piece], threads: int) -> None:
    left, errors, finished = iter(pieces), list[BaseException](), set[int]()
    # Each thread has its own mode, and what was made in this one is not to be written to in the other.
    mode = torch.inference_mode if torch.is_inference_mode_enabled() else torch.no_grad

    def take() -> None:
        _own.is_sharing = was_sharing or threads > 1
        try:
            with mode():
                for piece in left:
                    if errors:
                        break
                    work(piece)
        except BaseException as error:
            errors.append(error)
        finished.add(threading.get_ident())

    was_sharing = getattr(_own, "is_sharing", False)
    try:
        if threads > 1 and (run := _torchs_threads()) is not None:
            # All of them: OpenMP ends those that a smaller team leaves out, and torch would have to make them anew.
            run(_Routine(lambda _: take()), None, torch.get_num_threads(), 0)
            if threading.get_ident() not in finished:  # what a signal raised on the way in, ctypes has only printed
                raise KeyboardInterrupt
        elif threads > 1:
            others = [_pool(threads - 1).submit(take) for _ in range(threads - 1)]
            take()
            wait(others)
        else:
            take()
    finally:
        _own.is_sharing = was_sharing
    if errors:
        raise errors[0]


@cache
def _torchs_threads() -> Any:
    """What makes all threads of torch run a routine: OpenMP, as torch itself is linked to it; None without it."""
    try:
        run = ctypes.CDLL(torch._C.__file__).GOMP_parallel
    except (OSError, AttributeError):
        return None
    run.argtypes, run.restype = [_Routine, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    return None if _is_child else run


def _pool(workers: int) -> ThreadPoolExecutor:
    with _lock:
        if workers not in _pools:
            _pools[workers] = ThreadPoolExecutor(workers, "wolpertinger")
        return _pools[workers]


def _forget_threads() -> None:
    """A child process has none of its parent's threads, and OpenMP would wait for them for ever, in torch's products
    too.
    """
    global _is_child
    _is_child = True
    _pools.clear()
    if _torchs_threads.cache_info().currsize:  # they were there
        torch.set_num_threads(1)
    _torchs_threads.cache_clear()


os.register_at_fork(after_in_child=_forget_threads)
