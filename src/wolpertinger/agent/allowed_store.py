"""What the next states of a replay buffer's transitions allow: ragged, in a pool whose oldest blocks are let go.

A transition takes 12 bytes and 4 per allowed action (levels: 4 per level and factor); 12 and 4 per number more where
vectors come with the state.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer

from wolpertinger.actions import ActionSet, Allowed
from wolpertinger.actions.allowed_levels import AllowedLevels
from wolpertinger.actions.reading import empty_allowed
from wolpertinger.actions.slate import AllowedItems, Slate

BLOCK = 2**18  # numbers of a pool that are allocated together
STATES_AT_ONCE = 2**12  # that are looked at when they are read from a file
SPAN = 2**40  # of a block's addresses: more than it can hold
KNOWN = (ReplayBuffer, DictReplayBuffer, NStepReplayBuffer)


class Pool:
    """Rows of numbers, each of its own length, that are written in the order of a ring and overwritten in it."""

    def __init__(self, shape: tuple[int, int], dtype: Any) -> None:
        self.start = np.zeros(shape, np.int64)
        self.length = np.zeros(shape, np.int32)
        self.dtype = dtype
        self._blocks: dict[int, npt.NDArray[Any]] = {}
        self._number, self._used = -1, 0  # the block that is written to

    def write(self, position: int, rows: list[npt.NDArray[Any]]) -> None:
        """The rows of all environments at one position of the ring, whose oldest rows they replace."""
        for env, row in enumerate(rows):
            block = self._blocks.get(self._number)
            if block is None or self._used + len(row) > len(block):
                if block is not None:  # long rows would leave much of it unused
                    self._blocks[self._number] = block[: self._used].copy()
                self._number, self._used = self._number + 1, 0
                block = self._blocks[self._number] = np.empty(max(BLOCK, len(row)), self.dtype)
            block[self._used : self._used + len(row)] = row
            self.start[position, env], self.length[position, env] = self._number * SPAN + self._used, len(row)
            self._used += len(row)
        oldest = (position + 1) % len(self.start)
        if self.length[oldest].any():  # the ring is full: what is older than its oldest row is not needed any more
            for number in range(min(self._blocks), int(self.start[oldest].min() // SPAN)):
                del self._blocks[number]

    def read(self, positions: npt.NDArray[np.int64], envs: npt.NDArray[np.int64]) -> list[npt.NDArray[Any]]:
        """The rows at these places."""
        number, first = np.divmod(self.start[positions, envs], SPAN)
        last = first + self.length[positions, envs]
        places = zip(number.tolist(), first.tolist(), last.tolist(), strict=True)
        return [self._blocks[block][start:end] for block, start, end in places]

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All rows by place, and their lengths, for `restore`."""
        rows = self.read(*np.nonzero(self.length))
        return {"length": self.length, "numbers": np.concatenate(rows) if rows else np.empty(0, self.dtype)}

    def restore(self, length: npt.NDArray[np.int32], numbers: npt.NDArray[Any], position: int) -> None:
        """Write what `to_arrays` gave, of a ring whose next row goes to `position`, into an empty pool."""
        right = (length.shape, length.dtype, numbers.dtype) == (self.length.shape, self.length.dtype, self.dtype)
        if not right or (length < 0).any() or numbers.shape != (length.sum(),):
            raise ValueError(f"{numbers.shape} numbers for lengths {length.shape}, a pool has {self.length.shape}")
        ends = length.astype(np.int64).cumsum().reshape(length.shape)
        for place in (position + np.arange(len(length))) % len(length):
            if length[place].any():
                pairs = zip(ends[place] - length[place], ends[place], strict=True)
                self.write(int(place), [numbers[start:end] for start, end in pairs])

    @property
    def nbytes(self) -> int:
        """Memory in use: what nothing was written to takes none."""
        full = sum(block.nbytes for number, block in self._blocks.items() if number != self._number)
        return self.start.nbytes + self.length.nbytes + full + self._used * np.dtype(self.dtype).itemsize


class AllowedStore:
    """Beside a replay buffer: what the next state of each transition allows, and vectors that came with the states."""

    def __init__(self, buffer: ReplayBuffer, actions: ActionSet, form: str | None) -> None:
        if type(buffer) not in KNOWN:  # another one may sample otherwise
            raise ValueError(
                f"{type(buffer).__name__} does not say which transitions it sampled: with environments that say what "
                f"they allow take {', '.join(kind.__name__ for kind in KNOWN)}, or give allowed=, a function"
            )
        self.buffer, self.form = buffer, form
        shape = buffer.buffer_size, buffer.n_envs
        offered = actions.has_offered_vectors
        if form is not None and form not in (Allowed.form, AllowedLevels.form, AllowedItems.form):
            raise ValueError(f"form={form!r} of what states allow is not known")
        self._empty = None if form is None else empty_allowed(actions, form)
        self._items = actions.items.space if isinstance(actions, Slate) else actions.space
        has_small = not isinstance(actions.space, spaces.Discrete) or actions.space.n < 2**31
        self.pool = Pool(shape, np.int32 if has_small or form == "levels" else np.int64)
        self.vectors = Pool(shape, np.float32) if offered and form is not None else None
        self.executed = np.zeros((*shape, actions.dim), np.float32) if offered else None
        self._places: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
        self._inner = type(buffer)._get_samples.__get__(buffer)  # not that of a store before this one
        buffer._get_samples = self._get_samples  # type: ignore[method-assign]
        buffer.allowed_store = self  # type: ignore[attr-defined]

    def add(self, position: int, arrived: Allowed | None, executed: npt.NDArray[np.float32] | None) -> None:
        """What the next states allow of the transitions at one position; vectors of what was executed, if offered."""
        if arrived is not None:
            self.pool.write(position, arrived.pack())
            if self.vectors is not None and arrived.own_vectors is not None:
                self.vectors.write(position, [own.ravel() for own in arrived.own_vectors])
        if self.executed is not None and executed is not None:
            self.executed[position] = executed

    def sampled(self) -> tuple[Allowed | None, npt.NDArray[np.float32] | None]:
        """Of the last batch that was sampled: what its next states allow, and vectors of what was executed."""
        assert self._places is not None
        first, last, envs = self._places
        executed = None if self.executed is None else self.executed[first, envs]
        if self._empty is None:
            return None, executed
        rows = self.pool.read(last, envs)
        if not all(map(len, rows)):
            raise ValueError(
                "the replay buffer holds transitions that do not say what the next state allows: they were stored "
                "before the environment said so; begin with an empty buffer"
            )
        vectors = None
        if self.vectors is not None:
            dim = self.executed.shape[-1] if self.executed is not None else 1
            vectors = [row.reshape(-1, dim) for row in self.vectors.read(last, envs)]
        return self._empty.unpack(rows, vectors), executed

    def _get_samples(self, batch_inds: npt.NDArray[np.int64], env: Any = None) -> Any:
        """As the buffer does; and remember which places it takes, whose environments it draws first of all."""
        state = np.random.get_state()  # noqa: NPY002 - Stable-Baselines3's generator
        envs = np.random.randint(0, self.buffer.n_envs, size=batch_inds.shape)  # noqa: NPY002
        np.random.set_state(state)  # noqa: NPY002
        self._places = batch_inds, self._last_places(batch_inds, envs), envs
        batch = self._inner(batch_inds, env=env)
        if not np.array_equal(batch.actions.numpy(force=True), self.buffer.actions[batch_inds, envs]):
            raise RuntimeError("this version of Stable-Baselines3 samples otherwise: give allowed=, a function")
        return batch

    def _last_places(self, batch_inds: npt.NDArray[np.int64], envs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where the next states are: n steps on with n-step returns, or where the episode or the buffer ends."""
        buffer = self.buffer
        if not isinstance(buffer, NStepReplayBuffer):
            return batch_inds
        steps = (batch_inds[:, None] + np.arange(buffer.n_steps)) % buffer.buffer_size
        ends = (buffer.dones[steps, envs[:, None]] + buffer.timeouts[steps, envs[:, None]]) > 0
        ends |= steps == (buffer.pos - 1) % buffer.buffer_size
        ends[:, -1] = True
        return (batch_inds + ends.argmax(axis=1)) % buffer.buffer_size

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All that `restore` needs."""
        arrays = {f"{name}.{part}": array for name, pool in self._pools() for part, array in pool.to_arrays().items()}
        return arrays if self.executed is None else {**arrays, "executed": self.executed}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Put what `to_arrays` gave in place, into an empty store whose buffer has been filled."""
        expected = self.to_arrays()
        if arrays.keys() != expected.keys():
            raise ValueError(f"what states allow is kept as {', '.join(arrays)}, {', '.join(expected)} is expected")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("vectors of what states allow are not finite")
        self._check_numbers(arrays["allowed.length"], arrays["allowed.numbers"])
        dim = 0 if self.executed is None else self.executed.shape[-1]
        if self.vectors is not None and not np.array_equal(arrays["vectors.length"], dim * arrays["allowed.length"]):
            raise ValueError("there are not as many vectors as allowed actions")
        for name, pool in self._pools():
            pool.restore(arrays[f"{name}.length"], arrays[f"{name}.numbers"], self.buffer.pos)
        if self.executed is not None:
            if arrays["executed"].shape != self.executed.shape:
                raise ValueError(f"executed vectors of shape {arrays['executed'].shape}, not {self.executed.shape}")
            self.executed[:] = arrays["executed"]

    def _check_numbers(self, length: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> None:
        """Refuse actions that are not in the set, by what they would be unpacked to."""
        if self._empty is None:
            if len(numbers):
                raise ValueError("states allow something though nothing says what")
            return
        ends = length[length > 0].cumsum()
        for start in range(0, len(ends), STATES_AT_ONCE):
            own = ends[start : start + STATES_AT_ONCE]
            first = ends[start - 1] if start else 0
            rows = np.split(numbers[first : own[-1]], own[:-1] - first)
            unpacked = self._empty.unpack(rows)
            if not all(map(len, rows)) or not self._is_in_set(unpacked):
                raise ValueError("states allow actions that are not in the set")

    def _is_in_set(self, unpacked: Allowed) -> bool:
        if isinstance(unpacked, AllowedLevels):
            counts, most = unpacked.level_counts, unpacked.sizes
            factor = np.repeat(np.tile(np.arange(len(most)), len(unpacked)), counts.ravel())
            return bool((counts > 0).all() and (unpacked.levels >= 0).all() and (unpacked.levels < most[factor]).all())
        space: Any = self._items
        each = space.nvec if isinstance(space, spaces.MultiDiscrete) else int(space.n)
        return bool((unpacked.actions >= 0).all() and (unpacked.actions < each).all())

    def _pools(self) -> list[tuple[str, Pool]]:
        return [("allowed", self.pool), *([] if self.vectors is None else [("vectors", self.vectors)])]

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        own = 0 if self.executed is None else self.executed.nbytes
        return own + sum(pool.nbytes for _, pool in self._pools())
