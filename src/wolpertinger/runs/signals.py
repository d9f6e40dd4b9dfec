"""SIGINT and SIGTERM: finish the step, save, and say how to go on."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOW_CURSOR = "\x1b[?25h"  # which a progress bar hides


class Interrupted(KeyboardInterrupt):
    """A signal has ended a run; the message says what was saved and how to go on."""

    def __init__(self, signum: int, told: str) -> None:
        super().__init__(told)
        self.code = 128 + signum
        """The exit code, as a shell gives it."""


class Stop:
    """Whether a signal has asked the run to stop."""

    signum: int | None = None
    waits = False
    """Whether somebody will look at it soon; else a signal ends the command at once."""

    def receive(self, signum: int, _: FrameType | None) -> None:
        """The handler; a second signal ends the process at once."""
        if self.signum is not None:
            if sys.stdout.isatty():
                print(end=SHOW_CURSOR, flush=True)
            os._exit(128 + signum)
        self.signum = signum
        if not self.waits:
            raise Interrupted(signum, "interrupted before training began: nothing to save")


@contextmanager
def catch_signals() -> Iterator[Stop]:
    """Inside the block, signals are for the run to look at; outside the main thread nothing changes."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {signum: signal.signal(signum, stop.receive) for signum in SIGNALS}
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
