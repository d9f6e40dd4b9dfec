"""Odd values, and a child process that meets one: what it came to, within limits of time and memory."""

import dis
import faulthandler
import io
import json
import math
import os
import resource
import select
import signal
import sys
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from time import monotonic
from traceback import walk_tb
from typing import Any

import gymnasium as gym
import numpy as np
import scipy.sparse as sp
import torch
from gymnasium import spaces

import wolpertinger
from wolpertinger import ActionIds, BadTransitionError, CheckpointError, SaveError

SOURCE = str(Path(wolpertinger.__file__).parent)
SECONDS, MEGABYTES = 60, 3_000  # that a try may take, of the processor's; on a busy machine they last longer
PATIENCE = 600  # seconds, of a try that does nothing
OURS = (ValueError, TypeError, CheckpointError, SaveError, BadTransitionError)
RAISE = dis.opmap["RAISE_VARARGS"]


class Raises:
    """Every question is answered by an error."""

    def __repr__(self) -> str:
        raise RuntimeError("no name")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no array")


class Whole(int):
    """An int of another name."""


def _masked(kind: type, *shape: int) -> Any:
    array = np.ma.masked_array(np.ones(shape, kind))
    array.flat[0] = np.ma.masked
    return array


ODD: dict[str, Callable[[], Any]] = {
    **{
        repr(value): (lambda value=value: value)
        for value in (
            *(None, True, False, 0, -1, 1, 2, 3, 7, 1.0, 0.5, -0.5, 1.5, 1e-320, 1e308, -1e308, math.nan, math.inf),
            *(-math.inf, 2**31, 10**9, 10**12, 2**63, 2**64, 10**30, -(10**30), 10**400),
            *(Fraction(1, 3), Decimal("0.5"), 1 + 2j, np.float32("nan"), np.int8(-1), np.uint64(2**64 - 1)),
            *(np.bool_(True), np.float16(0.1), np.int64(3), np.str_("x"), b"bytes", ..., int, len),
            *("", "abc", "0.5", "nan", "auto", "cpu", "cuda", "meta", "mlp", "exact", "nearest", "all", "\0", "a/b"),
            *("HNSW0", "HNSW1", "HNSW2", "IVF4_HNSW1,Flat", "IVF0,Flat", "IVF999999999,Flat", "PQ0", "PQ2x99", "NSG1"),
            *("HNSW-1", "HNSW999999999", "SQ99", "IVF4,PQ0", "RQ1x1", "LSH", "IDMap,Flat", "PCA0,Flat", "IMI2x40,Flat"),
            *([], [1], [0, 1], [1, 2, 3], [[1], [2, 3]], [None], ["a"], [[0.0, 1.0]], [math.nan], [-1, 10**12]),
            *((), (1,), (0, "step"), (1, "episode"), (1, "year"), (2, 2), {}, {"a": 1}, {1: 2}, {"kind": "mlp"}),
            *({"kind": 3}, {"net_arch": [0]}, {"net_arch": 10**9}, {"net_arch": [10**6] * 9}, {"n_critics": "x"}),
            *({"dropout": "x"}, {"optimizer_class": 3}, {"optimizer_kwargs": {"x": 1}}, {"activation_fn": 3}),
            *({"net_arch": {"pi": [3]}}, {"features_extractor_class": int}, {"state_arch": "ab"}, {"k": 3}, set()),
            *(range(3), frozenset({1}), spaces.Discrete(5), spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 2])),
            *(spaces.Text(3), torch.device("meta"), torch.float32, Path("."), Path("/proc/nowhere"), Whole(3)),
        )
    },
    "10**5000": lambda: 10**5000,
    "long text": lambda: "ä" * 10_000,
    "deep list": lambda: json.loads("[" * 500 + "]" * 500),
    "generator": lambda: (number for number in range(3)),
    "function": lambda: lambda *args, **kwargs: None,
    "object": object,
    "raises": Raises,
    "class that raises": lambda: Raises,
    "module": lambda: np,
    "an error": lambda: ValueError("an error"),
    "bytes file": io.BytesIO,
    "text file": io.StringIO,
    "generator of numbers": lambda: np.random.default_rng(0),
    "old generator of numbers": lambda: np.random.RandomState(0),
    "ids": lambda: ActionIds(3),
    "environment": lambda: gym.make("CartPole-v1"),
    "continuous environment": lambda: gym.make("Pendulum-v1"),
    "sparse": lambda: sp.csr_array(np.eye(3)),
    "tensor": lambda: torch.zeros(3, 2),
    "tensor of a graph": lambda: torch.zeros(3, 2, requires_grad=True),
    "tensor of bfloat16": lambda: torch.zeros(3, 2, dtype=torch.bfloat16),
    "array ()": lambda: np.array(5),
    "array (0,)": lambda: np.array([]),
    "array (0, 2)": lambda: np.zeros((0, 2), np.float32),
    "array (2, 0)": lambda: np.zeros((2, 0), np.float32),
    "array (3,)": lambda: np.arange(3),
    "array (2,)": lambda: np.array([0.25, 0.5], np.float32),
    "array (1, 2)": lambda: np.array([[0.25, 0.5]], np.float32),
    "array (3, 2)": lambda: np.arange(6.0).reshape(3, 2),
    "array (3, 2), Fortran": lambda: np.asfortranarray(np.arange(6.0).reshape(3, 2)),
    "array (3, 2), reversed": lambda: np.arange(6.0, dtype=np.float32).reshape(3, 2)[::-1, ::-1],
    "array (3, 2, 1)": lambda: np.zeros((3, 2, 1)),
    "array of nan": lambda: np.full((3, 2), np.nan),
    "array of inf": lambda: np.full((3, 2), np.inf, np.float32),
    "array of 1e39": lambda: np.full((3, 2), 1e39),
    "array of 1e30": lambda: np.full((3, 2), 1e30),
    "array of nan (2,)": lambda: np.full(2, np.nan),
    "array of text": lambda: np.array([["a", "b"]] * 3),
    "array of objects": lambda: np.array([[None, 1]] * 3, dtype=object),
    "array of bool": lambda: np.ones((3, 2), bool),
    "array of complex": lambda: np.ones((3, 2), complex),
    "array of dates": lambda: np.zeros((3, 2), "M8[s]"),
    "array of records": lambda: np.zeros(3, [("a", "f4"), ("b", "i4")]),
    "array of float16": lambda: np.ones((3, 2), np.float16),
    "array of longdouble": lambda: np.ones((3, 2), np.longdouble),
    "array of int8": lambda: np.full((3, 2), -128, np.int8),
    "array of uint64": lambda: np.full((3, 2), 2**64 - 1, np.uint64),
    "array of huge shape": lambda: np.broadcast_to(np.float32(0), (10**9, 2)),
    "matrix": lambda: np.matrix([[1.0, 2.0]]),
    "masked (3, 2)": lambda: _masked(float, 3, 2),
    "masked (2,)": lambda: _masked(np.float32, 2),
    "masked integers": lambda: _masked(int, 3),
    "masked constant": lambda: np.ma.masked,
    "list of masked": lambda: [_masked(float, 2)] * 3,
}
"""By the name under which a failure is listed."""


def meet(work: Callable[[], Any], seconds: float = PATIENCE) -> dict[str, Any]:
    """Do it in a child process: "accepted", "refused" in our words, "foreign", "crash" or "hang", and what was said."""
    receiving, sending = os.pipe()
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        _be_a_child(work, sending)
    os.close(sending)
    told, end = b"", monotonic() + seconds
    while select.select([receiving], [], [], max(0.0, end - monotonic()))[0]:
        if not (part := os.read(receiving, 1 << 16)):
            break
        told += part
    else:
        os.kill(child, signal.SIGKILL)
    os.close(receiving)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGXCPU or (status == -signal.SIGKILL and monotonic() >= end):
        return {"came_to": "hang", "said": f"{SECONDS} s of the processor, or {seconds} s", "megabytes": 0}
    return json.loads(told) if told else {"came_to": "crash", "said": f"exit code {status}", "megabytes": 0}


def _be_a_child(work: Callable[[], Any], sending: int) -> None:
    """Never returns."""
    try:
        faulthandler.disable()  # pytest's would print what is meant to happen
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(silence, stream)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        limit = pages * resource.getpagesize() + MEGABYTES * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))  # its own: a child begins at 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = judged(work)
        found["megabytes"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        os.write(sending, json.dumps(found).encode())
    finally:
        os._exit(0)  # not through the parent's handlers


def judged(work: Callable[[], Any]) -> dict[str, Any]:
    """Do it here, and say what it came to."""
    try:
        said = work()
    except BaseException as error:
        return {"came_to": "refused" if is_ours(error) else "foreign", "said": describe(error)}
    return said if isinstance(said, dict) and "came_to" in said else {"came_to": "accepted", "said": ""}


def is_ours(error: BaseException, types: tuple[type[BaseException], ...] = OURS) -> bool:
    """Whether a `raise` of ours made it: not numpy, nor Python itself on a line of ours."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    assert last is not None
    is_raised = frame.f_code.co_code[last.tb_lasti] == RAISE
    return isinstance(error, types) and is_raised and frame.f_code.co_filename.startswith(SOURCE)


def is_of_path(error: OSError, given: Any) -> bool:
    """Whether it is the system's word on the very path that was given, or on that with .zip behind it."""
    if not isinstance(given, str | Path) or not isinstance(error.filename, str):
        return False
    return Path(error.filename) in (Path(given), Path(f"{given}.zip"))


def describe(error: BaseException) -> str:
    """The type, the place and the beginning of the words."""
    *_, (frame, line) = walk_tb(error.__traceback__)
    place = f"{Path(frame.f_code.co_filename).name}:{line}"
    try:
        words = " ".join(str(error).split())
    except Exception:
        words = "?"
    return f"{type(error).__name__} ({place}): {words[:160]}"


def count(found: dict[str, Any], name: str, outcome: dict[str, Any]) -> None:
    """Add one try to an attack's counts."""
    plural = {"crash": "crashes", "hang": "hangs", "traceback": "tracebacks"}.get(
        outcome["came_to"], outcome["came_to"]
    )
    found["tries"] += 1
    found[plural] += 1
    found["most_megabytes"] = max(found["most_megabytes"], outcome["megabytes"])
    if plural == "foreign":
        found["foreign_errors"].append(f"{name}: {outcome['said']}")
    elif plural in ("crashes", "hangs", "tracebacks"):
        found["failures"].append(f"{name}: {outcome['came_to']}, {outcome['said']}")
