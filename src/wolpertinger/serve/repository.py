"""The policy that is being served: changed, and replaced by another, without a gap."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.actions import ActionSet, count_actions
from wolpertinger.agent import CheckpointError
from wolpertinger.serve import journal
from wolpertinger.serve.batcher import Batcher
from wolpertinger.serve.journal import Added, Change, Changes, Journal, Removed
from wolpertinger.serve.limits import Limits
from wolpertinger.serve.observations import ObservationReader
from wolpertinger.serve.refused import RefusedError
from wolpertinger.serve.served import Request, Served
from wolpertinger.serve.source import Source

LOADING = (CheckpointError, ValueError, TypeError, OSError, MemoryError)


class Repository:
    """One model: where it comes from, the version that answers, and the journal of its changes.

    Everything that looks at the agent runs in the batcher's one thread. Changes and loads wait for each other; answers
    wait for neither.
    """

    def __init__(self, source: Source, limits: Limits, *, changeable: bool) -> None:
        self.source = source
        self.stamp = source.stamp() if source.file.exists() else ()
        self._journal = Journal(self.journal_path) if changeable else None
        self._changes: Changes = journal.read(self.journal_path)
        self.served = self._make(1)
        self.batcher = Batcher(self._answer, limits)
        self._changing = asyncio.Lock()

    @property
    def journal_path(self) -> Path:
        """Beside the agent's file."""
        file = self.source.file.resolve()
        return file.with_name(f"{file.name}.changes")

    def _answer(self, requests: Sequence[Request]) -> Sequence[Any]:
        return self.served.answer(requests)

    def _make(self, version: int) -> Served:
        """Load, change as the journal says, and try: all that may fail, before anything is switched."""
        agent = self.source.load()
        base = agent.actions.sha256
        self._changes.apply(agent.actions, self.journal_path)
        examples = self.source.examples(ObservationReader(agent.observation_space))
        served = Served(agent, version, examples, self.source.names)
        served.warm_up()
        if self._journal is not None:
            self._journal.begin(self._changes, base)
        if not self._changes.changes:
            self._changes = Changes(base)
        return served

    async def load(self) -> Served:
        """Replace the policy by what is in its file now; if that cannot be served, the old one stays."""
        async with self._changing:
            self.stamp = self.source.stamp() if self.source.file.exists() else ()
            try:
                served = await asyncio.to_thread(self._make, self.served.version + 1)
            except LOADING as error:
                told = f"the file cannot be served, version {self.served.version} goes on: {error}"
                raise RefusedError(409, told) from error
            self.served = served
            return served

    async def add(self, vectors: npt.NDArray[np.float32]) -> list[int]:
        """New actions; their ids, once they are durable."""
        async with self._changing:
            actions = self.served.agent.actions
            _require_changeable(actions)
            if vectors.ndim != 2 or vectors.shape[1] != actions.dim or not np.isfinite(vectors).all():
                raise ValueError(f"vectors have shape {vectors.shape}: give finite numbers (new, {actions.dim})")
            return await self._change(Added(count_actions(actions.space), vectors))

    async def remove(self, action: int) -> None:
        """Take an action out; once this returns, no answer names it."""
        async with self._changing:
            actions = self.served.agent.actions
            _require_changeable(actions)
            is_there = await self.batcher.call(lambda: actions.holds(np.array([action], np.int64)))
            if not is_there.all():
                raise RefusedError(404, f"there is no action {action}")
            if actions.n == 1:
                raise RefusedError(409, "at least one action must stay")
            await self._change(Removed([action]))

    async def _change(self, change: Change) -> list[int]:
        """First into the journal, then into the set: what was answered is there after any end of the process."""
        if self._journal is None:
            raise RefusedError(403, "the service was started without a token: nothing can be changed")
        try:
            await asyncio.to_thread(self._journal.append, change)
        except OSError as error:
            told = f"nothing was changed: {self.journal_path.name} cannot be written: {error}"
            raise RefusedError(507, told) from error
        actions = self.served.agent.actions
        try:
            ids = await self.batcher.call(lambda: change.apply(actions))
        except BaseException:
            self._journal.retract()
            raise
        self._changes.changes.append(change)
        return ids.tolist()

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()


def _require_changeable(actions: ActionSet) -> None:
    if not actions.is_changeable:
        raise RefusedError(409, f"{actions!r} is fixed: actions are added to and removed from tables")
