"""A log of what was done and what came of it: columns of equal length, in memory or memory-mapped."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from wolpertinger.actions import ActionSet
from wolpertinger.data import checking, files
from wolpertinger.data.arrays import Array, Ragged, Rows, no_flags, read_ragged
from wolpertinger.data.checking import ROWS_AT_ONCE, LogError, refuse_rows
from wolpertinger.data.columns import Columns
from wolpertinger.index import as_array
from wolpertinger.settings import show

SAME = 1e-5  # of observations that are the same, relative to their size


class Transitions:
    """A log: one row for each thing that was done, the rows of an episode in order.

    :param observations: (n, ...) numbers; (n,) whole ones are Discrete.
    :param actions: ids (n,) or digits (n, d).
    :param terminated: where an episode ended by itself; `truncated`: where it was cut, so that its value goes on.
    :param next_observations: by default those of the next row. Without them the last row of an episode that was cut
        says nothing of what came next, and is not learned from.
    :param episodes: a number or name per row; or `terminated` and `truncated` say where episodes end.
    :param times: step numbers, of which none may be missing within an episode; or seconds or timestamps.
    :param propensities: the chance that the logging policy gave to the action.
    :param allowed: ids that it could have taken, a list for each row.

    Everything is checked here but for the actions, which `check` compares with an action set.
    """

    def __init__(
        self,
        observations: npt.ArrayLike,
        actions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        terminated: npt.ArrayLike | None = None,
        truncated: npt.ArrayLike | None = None,
        *,
        next_observations: npt.ArrayLike | None = None,
        episodes: npt.ArrayLike | None = None,
        times: npt.ArrayLike | None = None,
        propensities: npt.ArrayLike | None = None,
        allowed: Sequence[npt.ArrayLike] | Ragged | None = None,
    ) -> None:
        given = {
            **{"observation": observations, "action": actions, "reward": rewards, "terminated": terminated},
            **{"truncated": truncated, "next_observation": next_observations, "episode": episodes, "time": times},
            "propensity": propensities,
        }
        self._columns: dict[str, Array] = {
            name: as_array(name, part) for name, part in given.items() if part is not None
        }
        self.allowed = None if allowed is None else read_ragged(allowed)
        self._check()

    @classmethod
    def from_pandas(cls, frame: Any, columns: Columns | Mapping[str, str] | None = None) -> Self:
        """A log from a data frame; `columns` says which are not named as in `Columns()`."""
        return files.from_pandas(cls, frame, columns)

    @classmethod
    def from_arrow(cls, table: Any, columns: Columns | Mapping[str, str] | None = None) -> Self:
        """A log from an Arrow table."""
        return files.from_arrow(cls, table, columns)

    @classmethod
    def read(cls, path: str | Path, columns: Columns | Mapping[str, str] | None = None) -> Self:
        """A log from a Parquet file, or from all those of a folder; of any size (docs/logs.md)."""
        return files.read(cls, Path(path), columns)

    def __len__(self) -> int:
        return len(self._columns["reward"])

    def __repr__(self) -> str:
        extra = [name for name in ("propensity", "allowed") if name in self._columns or getattr(self, name, None)]
        return f"Transitions(n={len(self):,}, {', '.join(['episodes=' + format(self.n_episodes, ','), *extra])})"

    def __getitem__(self, name: str) -> Array:
        """A column by the name of the field of `Columns` that it is of."""
        return self._columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    @property
    def has_propensities(self) -> bool:
        """Whether the log says with which chance each action was taken."""
        return "propensity" in self._columns

    @cached_property
    def n_episodes(self) -> int:
        """Episodes, the last of which may be unfinished."""
        return int(sum(np.count_nonzero(self.ends[part]) for part in self.parts()))

    @cached_property
    def n_unusable(self) -> int:
        """Rows that say nothing of what came next: the last ones of episodes that were cut."""
        return int(sum(np.count_nonzero(~self.usable(part)) for part in self.parts()))

    def parts(self, size: int = ROWS_AT_ONCE) -> Iterator[slice]:
        """Slices that cover all rows."""
        return (slice(start, min(start + size, len(self))) for start in range(0, len(self), size))

    def usable(self, part: slice) -> npt.NDArray[np.bool_]:
        """Which rows of a part say what came next."""
        if "next_observation" in self._columns and self.allowed is None:
            return np.ones(part.stop - part.start, np.bool_)
        return ~self.ends[part] | self.terminated(part)

    def terminated(self, part: slice | npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Where episodes ended by themselves."""
        if "terminated" not in self._columns:
            return np.zeros(len(np.asarray(self._columns["reward"][part])), np.bool_)
        return np.asarray(self._columns["terminated"][part]).astype(np.bool_)

    def rows(self, part: slice) -> Rows:
        """The transitions of a part, those left out that say nothing of what came next."""
        chosen = self.usable(part)
        obs = np.asarray(self._columns["observation"][part])
        if "next_observation" in self._columns:
            next_obs = np.asarray(self._columns["next_observation"][part])
        else:
            last = np.asarray(self._columns["observation"][min(part.stop, len(self) - 1)])[None]
            next_obs = np.concatenate([obs[1:], last])
        return Rows(
            number=np.arange(part.start, part.stop)[chosen],
            obs=obs[chosen],
            actions=np.asarray(self._columns["action"][part]).astype(np.int64)[chosen],
            rewards=np.asarray(self._columns["reward"][part]).astype(np.float32)[chosen],
            next_obs=next_obs[chosen],
            terminated=self.terminated(part)[chosen],
        )

    def allowed_in(self, rows: npt.NDArray[np.int64]) -> list[Array]:
        """What these rows allow, if the log says so."""
        assert self.allowed is not None
        values, offsets = self.allowed
        return [np.unique(values[start:end]) for start, end in zip(offsets[rows], offsets[rows + 1], strict=True)]

    def observation_space(self) -> spaces.Space:
        """The plainest space that the observations fit: Box of any numbers, pictures, or Discrete."""
        column = self._columns["observation"]
        if column.ndim == 1 and column.dtype.kind in "iu":
            return spaces.Discrete(int(column.max()) + 1)
        if column.ndim == 4 and column.dtype == np.uint8:
            return spaces.Box(0, 255, column.shape[1:], np.uint8)
        return spaces.Box(-np.inf, np.inf, column.shape[1:] or (1,), np.float32)

    def check(self, actions: ActionSet) -> None:
        """Refuse actions, and what rows allow, that are not in the set."""
        for part in self.parts():
            checking.check_in_set(
                checking.check_actions(self._columns["action"][part], part.start), actions, part.start
            )
        if self.allowed is None:
            return
        values, offsets = self.allowed
        for part in self.parts():
            own = values[offsets[part.start] : offsets[part.stop]]
            row = np.repeat(np.arange(part.stop - part.start), np.diff(offsets[part.start : part.stop + 1]))
            strange = np.bincount(row, weights=~actions.holds(own), minlength=part.stop - part.start) > 0
            refuse_rows(strange, f"allowed holds what is not in {actions!r}", "give actions of the set", part.start)

    def logged_actions(self) -> npt.NDArray[np.int64]:
        """Every action that the log took or could have taken, once: ids (m,), ascending, or digits (m, d)."""
        found: list[Array] = []
        for part in self.parts(2**20):
            found = [np.unique(np.concatenate([*found, np.asarray(self._columns["action"][part])]), axis=0)]
        if self.allowed is not None:
            found = [np.unique(np.concatenate([*found, self.allowed[0]]))]
        return found[0].astype(np.int64)

    def _check(self) -> None:
        if not self._columns["reward"].ndim:
            raise LogError(f"rewards={show(self._columns['reward'].item())}: give a number for each row")
        if not len(self._columns["reward"]):
            raise LogError("the log has no rows: give at least one transition")
        self._check_lengths()
        for part in self.parts():
            self._check_part(part)
        if self.allowed is not None:
            self._check_allowed(*self.allowed)
        self.ends = self._find_ends()
        if "time" in self._columns:
            checking.check_times(self._columns["time"], self.ends)
        self._check_next()

    def _check_lengths(self) -> None:
        n = len(self)
        lengths = {name: len(part) if part.ndim else 1 for name, part in self._columns.items()}
        if self.allowed is not None:
            lengths["allowed"] = len(self.allowed[1]) - 1
        if set(lengths.values()) != {n}:
            told = ", ".join(f"{name} {count:,}" for name, count in lengths.items())
            raise LogError(f"columns are not of the same length ({told}): give one entry per row")
        if not lengths.keys() & {"terminated", "truncated", "episode"}:
            raise LogError("nothing says where episodes end: give terminated, truncated or episodes")
        if "next_observation" in self and self["next_observation"].shape != self["observation"].shape:
            shapes = self["next_observation"].shape, self["observation"].shape
            raise LogError(f"next observations have shape {shapes[0]}, observations {shapes[1]}: give the same")
        if self["reward"].ndim != 1:
            raise LogError(f"rewards have shape {self['reward'].shape}: give one per row")

    def _check_part(self, part: slice) -> None:
        for name in {"observation", "next_observation", "reward"} & self._columns.keys():
            checking.check_numbers(name, self._columns[name][part], part.start)
        checking.check_actions(self._columns["action"][part], part.start)
        for name in {"terminated", "truncated"} & self._columns.keys():
            checking.check_flags(name, self._columns[name][part], part.start)
        if "propensity" in self._columns:
            checking.check_propensities(self._columns["propensity"][part], part.start)

    def _find_ends(self) -> npt.NDArray[np.bool_]:
        """Where episodes end: by their names where they have any, which flags must not contradict."""
        ends, n = no_flags(len(self)), len(self)
        given = [self._columns[name] for name in ("terminated", "truncated") if name in self._columns]
        for part in self.parts():
            for column in given:
                ends[part] |= np.asarray(column[part]).astype(np.bool_)
        if "episode" not in self._columns:
            ends[n - 1] = True  # unfinished
            return ends
        by_name = checking.check_episodes(self._columns["episode"])
        for part in self.parts():
            refuse_rows(
                ends[part] & ~by_name[part],
                "the episode goes on after it ended",
                "give what follows another episode, or mend the flags",
                part.start,
            )
            ends[part] |= by_name[part]
        return ends

    def _check_next(self) -> None:
        """Refuse next observations that are not those of the next row, where there is one."""
        if "next_observation" not in self._columns:
            return
        following, own = self._columns["next_observation"], self._columns["observation"]
        for part in self.parts():
            stop = min(part.stop, len(self) - 1)
            told = np.asarray(following[part.start : stop], np.float64).reshape(stop - part.start, -1)
            seen = np.asarray(own[part.start + 1 : stop + 1], np.float64).reshape(stop - part.start, -1)
            differs = (np.abs(told - seen) > SAME * (1 + np.abs(seen))).any(axis=1) & ~self.ends[part.start : stop]
            remedy = "rows are missing, or not in order; say with truncated where a new piece begins"
            refuse_rows(differs, "next_observation is not the next row's observation", remedy, part.start)

    def _check_allowed(self, values: Array, offsets: Array) -> None:
        if self._columns["action"].ndim != 1:
            raise LogError("allowed lists ids, and actions are digits or vectors: give it for logs of ids")
        if values.dtype.kind not in "iu":
            raise LogError(f"allowed holds {values.dtype}: give lists of ids")
        for part in self.parts():
            counts = np.diff(offsets[part.start : part.stop + 1])
            refuse_rows(counts == 0, "allowed is empty", "give at least the action that was taken", part.start)
            row = np.repeat(np.arange(part.stop - part.start), counts)
            taken = np.asarray(self._columns["action"][part])[row] == values[offsets[part.start] : offsets[part.stop]]
            missing = np.bincount(row, weights=taken, minlength=part.stop - part.start) == 0
            refuse_rows(missing, "the action is not among those allowed", "mend either", part.start)
