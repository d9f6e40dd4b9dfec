"""The connection to Ray: a cluster's, or one that is started on this machine for as long as it is needed."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wolpertinger.imports import needs_extra

REACHED_WITHIN = 10.0  # seconds
LOCAL = "local"  # Ray's word for a cluster of its own on this machine


def import_ray(what: str) -> Any:
    """Ray itself; where it is not installed, the error names the extra."""
    with needs_extra("ray", what):
        import ray
    return ray


def connect(address: str | None, what: str, *, processors: int) -> Any:
    """Ray, connected to the cluster at `address`, or to that of RAY_ADDRESS, or to one started here with so many
    logical processors, which ends with the process. A connection that is there already is used.
    """
    ray = import_ray(what)
    if ray.is_initialized():
        return ray
    address = address or os.environ.get("RAY_ADDRESS") or LOCAL
    own: dict[str, Any] = {"num_cpus": processors, "include_dashboard": False} if address == LOCAL else {}
    _require_cluster(address)
    with _signals_as_they_are():
        ray.init(address=address, logging_level=logging.ERROR, **own)
    return ray


@contextmanager
def connected(address: str | None, what: str, *, processors: int) -> Iterator[Any]:
    """`connect` for a `with` block; a connection that was there before stays."""
    is_ours = not import_ray(what).is_initialized()
    ray = connect(address, what, processors=processors)
    try:
        yield ray
    finally:
        if is_ours:
            ray.shutdown()


def cause_of(error: Exception) -> Exception:
    """What an actor raised, of which Ray makes an error whose text is a whole traceback."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else error


def _require_cluster(address: str) -> None:
    """Refuse an address at which nobody listens: Ray itself asks it for ten minutes and then ends the process."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon:
        if address not in (LOCAL, "auto"):
            raise ValueError(f"Ray address {address!r}: give host:port, ray://host:port, auto or {LOCAL}")
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED_WITHIN).close()
    except (OSError, ValueError, OverflowError) as error:
        raise ConnectionError(f"no Ray cluster at {address}: {error}; `ray start --head` begins one") from error


@contextmanager
def _signals_as_they_are() -> Iterator[None]:
    """Ray takes SIGTERM for itself, which a run answers by saving."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
