"""The checkpoints of a training under way: the last few, of which each costs only what is new since the one before."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wolpertinger import archive
from wolpertinger.agent.buffer_files import allowed_files
from wolpertinger.agent.checkpoint import KIND, SEGMENTS, agent_files, training_files
from wolpertinger.agent.segments import PATTERN, Segment, checkpoints_in, read_list, write_list, write_new
from wolpertinger.archive import Buffer, CheckpointError
from wolpertinger.atomic import SaveError, remove_litter

KEPT = 3


class CheckpointFolder:
    """Numbered checkpoints of one agent, which share the files that hold its replay buffer.

    Each is everything that `Wolpertinger.load(folder, env=env)` needs to train on as if nothing had happened, but for
    the action set: the environment's, or the one given to `load`. A checkpoint counts once its archive is renamed.
    """

    def __init__(self, path: Path, *, resumed: Path | None = None) -> None:
        path.mkdir(parents=True, exist_ok=True)
        remove_litter(path, nobody_writes=True)
        self.path = path
        present = checkpoints_in(path)
        self._number = int(present[0].stem) + 1 if present else 0
        self._listed = {found: _read_listed(found) for found in present}
        self._segments: list[Segment] = [] if resumed is None else _read_listed(resumed)

    def save(self, agent: Any, extra: Mapping[str, Buffer] | None = None, *, with_env: bool = True) -> Path:
        """Write a checkpoint, with `extra` files of the caller's own; then remove the oldest."""
        stored, path = self._count_rows(agent), self.path / f"{self._number:06d}.zip"
        try:
            segments = write_new(self.path, agent.replay_buffer, stored, self._segments)
            files = agent_files(agent, with_actions=False) | training_files(agent, with_env=with_env)
            files |= {SEGMENTS: write_list(stored, segments), **allowed_files(agent.replay_buffer), **(extra or {})}
            archive.write(path, KIND, files)
        except SaveError:
            self._remove_unused()  # rows of a checkpoint that never came to be: they would fill a full disk for good
            raise
        self._number, self._segments, self._listed[path] = self._number + 1, segments, segments
        for old in checkpoints_in(self.path)[KEPT:]:
            old.unlink()
            self._listed.pop(old, None)
        self._remove_unused()
        return path

    def _count_rows(self, agent: Any) -> int:
        """Rows stored ever; all of the buffer is written anew where somebody else has filled it."""
        buffer = agent.replay_buffer
        size, stored = buffer.buffer_size, agent._rows_stored
        if stored < 0 or (stored % size, stored >= size) != (buffer.pos, buffer.full):
            stored = agent._rows_stored = buffer.pos + size * buffer.full
            self._segments = []
        return stored

    def _remove_unused(self) -> None:
        used = {segment.name for segments in self._listed.values() for segment in segments}
        for path in self.path.glob(PATTERN):
            if path.name not in used:
                path.unlink()


def _read_listed(path: Path) -> list[Segment]:
    """The segments of a checkpoint; none of one that is damaged."""
    try:
        return read_list(archive.read(path, KIND)[SEGMENTS])[1]
    except (CheckpointError, KeyError, ValueError, TypeError):
        return []
