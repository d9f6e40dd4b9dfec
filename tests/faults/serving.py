"""A service that is asked, changed and given other policies while it is killed again and again.

Three threads ask, one adds and removes actions, one replaces the policy; SIGKILL comes at random moments. What was
answered must be there after the restart, no answer may name an action whose removal was answered before the question,
and nothing may fail but what was on its way at a kill.
"""

import http.client
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

from tests.serve.conftest import make_agent
from tests.serve.started import TOKEN, Client, some_states

ROWS, READERS, TOP = 400, 3, 10
CHANGES_PER_KILL, SWAPS_PER_KILL = 334, 10 / 3  # 10,000 and 100 at 30 kills
SECONDS = 600.0  # in which a service begins, or a round ends
LOAD = "/v2/repository/models/policy/load"
BROKEN = (OSError, http.client.HTTPException)


class Process:
    """The command in a process of its own, begun anew after each kill; clients wait until it is up."""

    def __init__(self, path: Path) -> None:
        self.path, self.kills, self.up = path, 0, threading.Event()
        self.begin()

    def begin(self) -> None:
        environment = {**os.environ, "WOLPERTINGER_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "wolpertinger", "serve", str(self.path), "--port", "0", "--name", "policy"]
        command += ["--watch", "0", "--deadline-ms", str(1e3 * SECONDS)]  # a slow machine is no failure
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("serving at http://127.0.0.1:"), line
        self.client = Client(int(line.rsplit(":", 1)[1]))
        until = monotonic() + SECONDS
        while monotonic() < until:
            try:
                if self.client.ask("GET", "/v2/health/ready")[0] == 200:
                    return
            except BROKEN:
                sleep(0.02)
        raise AssertionError("it does not begin")

    def kill(self) -> None:
        self.kills += 1
        self.up.clear()
        self.process.send_signal(signal.SIGKILL)
        self._wait()

    def end(self) -> int:
        """By SIGTERM; its exit code."""
        self.up.clear()
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self) -> int:
        assert self.process.stdout is not None
        try:
            return self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.process.stdout.close()


@dataclass
class Ledger:
    """What was answered."""

    vectors: dict[int, list[float]] = field(default_factory=dict)
    """Of added actions, by id."""
    live: set[int] = field(default_factory=lambda: set(range(ROWS)))
    removed_at: dict[int, float] = field(default_factory=dict)
    pending: int | None = None
    """The action that a change on its way is about."""
    next_id: int = ROWS
    changes: int = 0
    swaps: int = 0
    answers: int = 0
    in_flight: int = 0
    named_after_removal: int = 0
    failures: list[str] = field(default_factory=list)


class Chaos:
    """Threads that ask and change until they are stopped."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.ledger, self.stop = folder, seed, Ledger(), threading.Event()
        for number, name in enumerate(("first", "second")):
            make_agent(number, n=ROWS).save(folder / f"{name}.zip")
        shutil.copy(folder / "first.zip", folder / "agent.zip")
        self.service = Process(folder / "agent.zip")
        self.share = 0.0  # of all swaps that may have been made by now
        self.swaps = 0

    def run(self, kills: int, changes: int, swaps: int) -> None:
        """Until so many kills, changes and swaps have been."""
        draw = random.Random(self.seed)
        self.changes, self.swaps = changes, swaps
        works = [*(self._ask,) * READERS, self._change, self._swap]
        threads = [threading.Thread(target=self._guarded, args=(work, number)) for number, work in enumerate(works)]
        self.service.up.set()
        for thread in threads:
            thread.start()
        try:
            for number in range(1, kills + 1):
                self._until(lambda own=number: self.ledger.changes >= (own - draw.random()) * changes / kills)
                sleep(draw.uniform(0, 0.05))
                self.service.kill()
                self.service.begin()
                self._check(draw.sample(range(ROWS), 20))
                self.service.up.set()
            self._until(lambda: self.ledger.changes >= changes and self.ledger.swaps >= swaps)
        finally:
            self.stop.set()
            self.service.up.set()
            for thread in threads:
                thread.join(SECONDS)
        self._check(range(self.ledger.next_id))

    def _until(self, is_so: Callable[[], bool]) -> None:
        until = monotonic() + SECONDS
        while not is_so() and not self.ledger.failures:
            assert monotonic() < until, "nothing goes on"
            sleep(0.002)

    def _guarded(self, work: Callable[[random.Random], None], number: int) -> None:
        draw = random.Random(1_000 * self.seed + number)
        while not self.stop.is_set():
            try:
                work(draw)
            except Exception as error:
                self.ledger.failures.append(f"{work.__name__}: {type(error).__name__}: {error}")
                return

    def _tell(self, expected: int, *request: Any, **options: Any) -> Any:
        """The answer; None: it was on its way at a kill."""
        self.service.up.wait()
        kills = self.service.kills
        try:
            status, _, told = self.service.client.ask(*request, **options)
        except BROKEN:
            if self.service.kills == kills:
                raise
            self.ledger.in_flight += 1
            return None
        assert status == expected, (request[:2], status, told)
        return told

    def _ask(self, draw: random.Random) -> None:
        start, state = monotonic(), some_states(1, draw.randrange(1_000))[0].tolist()
        told = self._tell(200, "POST", "/v1/rank", {"observation": state, "top": TOP})
        if told is not None:
            named = [one["action"] for one in told["ranked"]]
            assert len(named) == TOP
            self.ledger.named_after_removal += sum(
                self.ledger.removed_at.get(action, np.inf) < start for action in named
            )
            self.ledger.answers += 1

    def _change(self, draw: random.Random) -> None:
        ledger = self.ledger
        if ledger.changes >= self.changes:
            sleep(0.01)
        elif draw.random() < 0.6 or len(ledger.live) < ROWS // 2:
            ledger.pending = action = ledger.next_id
            vector = some_states(1, draw.randrange(1_000))[0].tolist()
            told = self._tell(201, "POST", "/v1/actions", {"vectors": [vector]}, token=TOKEN)
            if self._has_happened(told, action, is_there=True):
                assert told is None or told["ids"] == [action], (told, action)
                ledger.vectors[action] = vector
                ledger.live.add(action)
                ledger.next_id += 1
        else:
            ledger.pending = action = draw.choice(sorted(ledger.live))
            told = self._tell(200, "DELETE", f"/v1/actions/{action}", token=TOKEN)
            if self._has_happened(told, action, is_there=False):
                ledger.live.discard(action)
                ledger.removed_at[action] = monotonic()
        ledger.pending = None

    def _has_happened(self, told: Any, action: int, *, is_there: bool) -> bool:
        """Whether the change was made: if it was on its way at a kill, it may have been or not."""
        self.ledger.changes += told is not None
        while told is None:
            self.service.up.wait()
            found = self._status(action)
            if found is not None:
                return (found == 200) == is_there
        return True

    def _status(self, action: int) -> int | None:
        kills = self.service.kills
        try:
            return self.service.client.ask("GET", f"/v1/actions/{action}")[0]
        except BROKEN:
            if self.service.kills == kills:
                raise
            return None

    def _swap(self, draw: random.Random) -> None:
        if self.ledger.swaps >= self.swaps * min(1.0, 1.1 * self.ledger.changes / self.changes):
            sleep(0.01)
            return
        copied = shutil.copy(self.folder / f"{draw.choice(['first', 'second'])}.zip", self.folder / "new.zip")
        os.replace(copied, self.folder / "agent.zip")
        self.ledger.swaps += self._tell(200, "POST", LOAD, {}, token=TOKEN) is not None

    def _check(self, some: Any) -> None:
        """What was answered is there: the last changes, and these actions."""
        ledger, client = self.ledger, self.service.client
        recent = [*list(ledger.vectors)[-30:], *list(ledger.removed_at)[-30:]]
        for action in {*some, *recent} - {ledger.pending, ledger.next_id}:
            status, _, told = client.ask("GET", f"/v1/actions/{action}")
            if (status == 200) != (action in ledger.live):
                ledger.failures.append(f"{action} was {'lost' if action in ledger.live else 'found again'}")
            elif status == 200 and action in ledger.vectors:
                assert np.allclose(told["vector"], ledger.vectors[action]), action
        count = int(client.get("/v1/about")["actions"])
        if abs(count - len(ledger.live)) > (ledger.pending is not None):
            ledger.failures.append(f"{count} actions, not {len(ledger.live)}")


def chaos(kills: int, seed: int = 0, changes_per_kill: int = CHANGES_PER_KILL) -> dict[str, Any]:
    """So many kills amid adds and removes, swaps of the policy and questions."""
    changes, swaps = kills * changes_per_kill, round(kills * SWAPS_PER_KILL)
    with tempfile.TemporaryDirectory() as folder:
        run = Chaos(Path(folder), seed)
        try:
            run.run(kills, changes, swaps)
        finally:
            code = run.service.end()
    ledger = run.ledger
    found = {name: getattr(ledger, name) for name in ("changes", "swaps", "answers", "in_flight")}
    failures = ledger.failures + ([] if code in (0, -signal.SIGTERM) else [f"SIGTERM: exit code {code}"])
    return {
        "kills": run.service.kills,
        **found,
        "named_after_removal": ledger.named_after_removal,
        "failures": failures,
    }
