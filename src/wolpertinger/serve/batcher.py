"""Requests that arrive together are one batch: a bounded queue before the one thread that asks the policy."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from wolpertinger.serve.limits import Limits
from wolpertinger.serve.refused import RefusedError
from wolpertinger.serve.served import Request

Result = TypeVar("Result")
RETRY = {"Retry-After": "1"}


@dataclass(eq=False)
class _Waiting:
    request: Request
    answer: asyncio.Future[Any]
    since: float


class Batcher:
    """One thread asks the policy, of all requests that have come since it was last asked.

    A batch waits for as many requests as the one before it had, at most `limits.wait`: clients that were answered
    together ask again together, and one client alone never waits.
    """

    def __init__(self, answer: Callable[[Sequence[Request]], Sequence[Any]], limits: Limits) -> None:
        self.limits = limits
        self.on_batch: Callable[[int, float], None] = lambda states, waited: None
        self._answer = answer
        self._waiting: deque[_Waiting] = deque()
        self._states = 0  # of all that wait
        self._expected = 1
        self._is_closing = False
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "policy")
        self._task: asyncio.Task[None] | None = None

    @property
    def states(self) -> int:
        """How many wait."""
        return self._states

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Answer what was accepted, then end."""
        self._is_closing = True
        self._changed.set()
        if self._task is not None:
            await self._task
        await asyncio.to_thread(self._thread.shutdown)

    async def call(self, work: Callable[[], Result]) -> Result:
        """Run something else in the policy's thread, between batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def require_room(self, states: int = 1) -> None:
        """Refuse at once what the queue has no room for."""
        if self._is_closing:
            raise RefusedError(503, "the service is ending", RETRY)
        if self._states + states > self.limits.queue:
            raise RefusedError(503, f"{self._states} states are waiting already: ask again later", RETRY)

    async def ask(self, request: Request, seconds: float | None = None) -> Any:
        """The answer to a request, within the deadline or so many seconds."""
        self.require_room(request.states)
        deadline = min(self.limits.deadline, seconds or self.limits.deadline)
        waiting = _Waiting(request, asyncio.get_running_loop().create_future(), time.perf_counter())
        self._waiting.append(waiting)
        self._states += request.states
        self._changed.set()
        try:
            async with asyncio.timeout(deadline):
                return await waiting.answer
        except TimeoutError as error:
            raise RefusedError(504, f"no answer within {deadline:g} s") from error

    async def _run(self) -> None:
        while True:
            await self._until(lambda: bool(self._waiting))
            if not self._waiting:  # the service is ending
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.wait):
                    await self._until(lambda: len(self._waiting) >= self._expected or self._states >= self.limits.batch)
            if batch := self._take():
                self._expected = len(batch)
                await self._give_answers(batch)

    async def _give_answers(self, batch: list[_Waiting]) -> None:
        try:
            answers = await self.call(lambda: self._answer([one.request for one in batch]))
        except Exception as error:  # of ours, not of a request: those come as answers
            answers = [error] * len(batch)
        for one, answer in zip(batch, answers, strict=True):
            if one.answer.done():  # nobody waits any more
                continue
            if isinstance(answer, Exception):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait until it is so, or the service is ending."""
        while not (is_so() or self._is_closing):
            self._changed.clear()
            await self._changed.wait()

    def _take(self) -> list[_Waiting]:
        """As many of the oldest requests as fit into a batch; those that nobody waits for any more are dropped."""
        batch: list[_Waiting] = []
        states = 0
        while self._waiting:
            one = self._waiting[0]
            if batch and states + one.request.states > self.limits.batch:
                break
            self._waiting.popleft()
            self._states -= one.request.states
            if not one.answer.done():
                batch.append(one)
                states += one.request.states
        if batch:
            self.on_batch(states, time.perf_counter() - batch[0].since)
        return batch
