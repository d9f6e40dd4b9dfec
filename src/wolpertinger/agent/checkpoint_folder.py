"""The checkpoints of a training under way: the last few, of which each costs only what is new since the one before."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wolpertinger import archive
from wolpertinger.agent.checkpoint import KIND, SEGMENTS, agent_files, training_files
from wolpertinger.agent.segments import PATTERN, Segment, checkpoints_in, read_list, write_list, write_new
from wolpertinger.archive import Buffer, CheckpointError
from wolpertinger.atomic import remove_litter

KEPT = 3


class CheckpointFolder:
    """Numbered checkpoints of one agent, which share the files that hold its replay buffer.

    Each is everything that `Wolpertinger.load(folder, env=env)` needs to train on as if nothing had happened, but for
    the action set: the environment's, or the one given to `load`. A checkpoint counts once its archive is renamed.
    """

    def __init__(self, path: Path, *, resumed: Path | None = None) -> None:
        path.mkdir(parents=True, exist_ok=True)
        remove_litter(path)
        self.path = path
        present = checkpoints_in(path)
        self._number = int(present[0].stem) + 1 if present else 0
        self._segments: list[Segment] = [] if resumed is None else _listed(resumed)

    def save(self, agent: Any, extra: Mapping[str, Buffer] | None = None, *, with_env: bool = True) -> Path:
        """Write a checkpoint, with `extra` files of the caller's own; then remove the oldest."""
        stored = self._count_rows(agent)
        segments = write_new(self.path, agent.replay_buffer, stored, self._segments)
        files = agent_files(agent, with_actions=False) | training_files(agent, with_env=with_env)
        files |= {SEGMENTS: write_list(stored, segments), **(extra or {})}
        path = self.path / f"{self._number:06d}.zip"
        archive.write(path, KIND, files)
        self._number, self._segments = self._number + 1, segments
        self._remove_old()
        return path

    def _count_rows(self, agent: Any) -> int:
        """Rows stored ever; all of the buffer is written anew where somebody else has filled it."""
        buffer = agent.replay_buffer
        size, stored = buffer.buffer_size, agent._rows_stored
        if stored < 0 or (stored % size, stored >= size) != (buffer.pos, buffer.full):
            stored = agent._rows_stored = buffer.pos + size * buffer.full
            self._segments = []
        return stored

    def _remove_old(self) -> None:
        present = checkpoints_in(self.path)
        for path in present[KEPT:]:
            path.unlink()
        used = {segment.name for path in present[1:KEPT] for segment in _listed(path)}
        used |= {segment.name for segment in self._segments}
        for path in self.path.glob(PATTERN):
            if path.name not in used:
                path.unlink()


def _listed(path: Path) -> list[Segment]:
    """The segments of a checkpoint; none of one that is damaged."""
    try:
        return read_list(archive.read(path, KIND)[SEGMENTS])[1]
    except (CheckpointError, KeyError, ValueError, TypeError):
        return []
