"""A replay buffer as files, and back: safetensors for arrays, JSON for the rest."""

import json
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer

from wolpertinger import archive
from wolpertinger.actions import ActionSet
from wolpertinger.agent.allowed_store import AllowedStore
from wolpertinger.agent.encoding import existing_path, with_suffix
from wolpertinger.agent.faults import all_finite
from wolpertinger.archive import CheckpointError, read_arrays, read_json, readable
from wolpertinger.index import check_ids
from wolpertinger.settings import check_flag, check_number

KIND = "wolpertinger replay buffer"
ALLOWED, FORM = "replay_buffer_allowed.safetensors", "replay_buffer_allowed.json"
ROWS_AT_ONCE = 2**14
ENDS = ("dones", "timeouts")
EPISODES = ("ep_start", "ep_length")  # of each row, by HerReplayBuffer
ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts", *EPISODES)


def save_buffer(buffer: ReplayBuffer, target: archive.Target) -> None:
    """Write a replay buffer on its own."""
    archive.write(with_suffix(target), KIND, buffer_files(buffer))


def load_buffer(buffer: ReplayBuffer, source: archive.Target, actions: ActionSet) -> None:
    """Fill a replay buffer of the same shape with what `save_buffer` wrote."""
    restore_buffer(buffer, archive.read(existing_path(source), KIND), actions)


def buffer_files(buffer: ReplayBuffer) -> dict[str, bytes]:
    """The filled part of a replay buffer, and one row more: there may be the last step's next observation."""
    filled = buffer.buffer_size if buffer.full else buffer.pos + 1
    facts: dict[str, Any] = {
        "pos": buffer.pos,
        "full": buffer.full,
        "buffer_size": buffer.buffer_size,
        "n_envs": buffer.n_envs,
    }
    if isinstance(buffer, HerReplayBuffer):
        if buffer.copy_info_dict:
            raise TypeError("a HerReplayBuffer with copy_info_dict=True cannot be saved: infos may hold anything")
        facts["episode_start"] = buffer._current_ep_start.tolist()
    arrays = {name: np.ascontiguousarray(array[:filled]) for name, array in buffer_arrays(buffer).items()}
    return {
        "replay_buffer.json": json.dumps(facts).encode(),
        "replay_buffer.safetensors": safetensors.numpy.save(arrays),
        **allowed_files(buffer),
    }


def allowed_files(buffer: ReplayBuffer) -> dict[str, bytes]:
    """What the states of a replay buffer allow, if it keeps that."""
    store: AllowedStore | None = getattr(buffer, "allowed_store", None)
    if store is None:
        return {}
    return {FORM: json.dumps(store.form).encode(), ALLOWED: safetensors.numpy.save(store.to_arrays())}


def restore_allowed(buffer: ReplayBuffer, files: dict[str, bytes], actions: ActionSet) -> None:
    if ALLOWED in files:
        with readable(ALLOWED):
            AllowedStore(buffer, actions, read_json(files[FORM])).restore(read_arrays(files[ALLOWED]))


def restore_buffer(buffer: ReplayBuffer, files: dict[str, bytes], actions: ActionSet) -> None:
    with readable("replay_buffer.json"):
        facts = read_json(files["replay_buffer.json"])
        saved = read_arrays(files["replay_buffer.safetensors"])
        position, full, size, n_envs = (facts[name] for name in ("pos", "full", "buffer_size", "n_envs"))
        check_flag("full", full)
        for number in (position, size, n_envs):
            check_number("pos, buffer_size, n_envs", number, whole=True)
    has_places = isinstance(buffer, HerReplayBuffer) or buffer.optimize_memory_usage or ALLOWED in files
    if n_envs != buffer.n_envs or (size != buffer.buffer_size and has_places):
        raise CheckpointError(
            f"the replay buffer was saved with {size} steps of {n_envs} environments, "
            f"this agent's has {buffer.buffer_size} of {buffer.n_envs}"
        )
    own = buffer_arrays(buffer)
    filled = size if full else position + 1
    expected = {name: (array.dtype, (filled, *array.shape[1:])) for name, array in own.items()}
    found = {name: (array.dtype, array.shape) for name, array in saved.items()}
    if found != expected or not 0 <= position < size:
        raise CheckpointError(f"the replay buffer holds {found}, this agent's {expected}")
    with readable("replay_buffer.safetensors"):
        check_rows(saved, actions.space)
        if isinstance(buffer, HerReplayBuffer):
            _restore_episodes(buffer, facts, saved)
    if size == buffer.buffer_size:
        for name, array in saved.items():
            own[name][:filled] = array
        buffer.pos, buffer.full = position, full
    else:
        _fill(buffer, saved, position, full)
    restore_allowed(buffer, files, actions)


def _fill(buffer: ReplayBuffer, saved: Mapping[str, np.ndarray], position: int, full: bool) -> None:
    """The newest rows of a ring of another size, the oldest of them first."""
    rows = np.arange(position) if not full else (position + np.arange(len(saved["rewards"]))) % len(saved["rewards"])
    rows = rows[-buffer.buffer_size :]
    for name, array in buffer_arrays(buffer).items():
        array[: len(rows)] = saved[name][rows]
    buffer.pos, buffer.full = len(rows) % buffer.buffer_size, len(rows) == buffer.buffer_size


def _restore_episodes(buffer: HerReplayBuffer, facts: Mapping[str, Any], saved: Mapping[str, np.ndarray]) -> None:
    """Where the episodes are, each row in its own: goals are drawn from those places without another look."""
    begun, size = np.asarray(facts["episode_start"]), buffer.buffer_size
    start, length = (saved[name] for name in EPISODES)
    within = (np.arange(len(start))[:, None] - start) % size < length
    places = [start, begun]
    right = begun.dtype.kind == "i" and begun.shape == (buffer.n_envs,) and (within | (length == 0)).all()
    right = right and all(((part >= 0) & (part < size)).all() for part in places)
    if not right or (length < 0).any() or (length > size).any():
        raise ValueError("the replay buffer's episodes do not fit together")
    buffer._current_ep_start = begun.astype(np.int64)


def end_episodes(buffer: ReplayBuffer) -> None:
    """Let HerReplayBuffer know that the episodes that were going on do not go on."""
    if isinstance(buffer, HerReplayBuffer):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says so
            buffer.truncate_last_trajectory()


def check_rows(rows: Mapping[str, np.ndarray], space: Any) -> None:
    """Refuse transitions that no environment can have made; what is learned from them would be lost."""
    sizes = getattr(space, "nvec", None)
    sizes = int(space.n) if sizes is None else sizes
    for start in range(0, len(rows["actions"]), ROWS_AT_ONCE):
        part = {name: array[start : start + ROWS_AT_ONCE] for name, array in rows.items()}
        if bad := [name for name, array in part.items() if not all_finite(array)]:
            raise ValueError(f"{', '.join(bad)} of the replay buffer hold numbers that are not finite")
        check_ids(part["actions"], sizes)
        if not all(np.isin(part[name], (0, 1)).all() for name in ENDS if name in part):
            raise ValueError("dones or timeouts of the replay buffer are neither 0 nor 1")


def buffer_arrays(buffer: ReplayBuffer) -> dict[str, np.ndarray]:
    """The buffer's own arrays by name; those of Dict observations one by one."""
    arrays: dict[str, np.ndarray] = {}
    for name in ARRAYS:
        value = getattr(buffer, name, None)
        if isinstance(value, dict):
            arrays |= {f"{name}.{key}": part for key, part in value.items()}
        elif value is not None:
            arrays[name] = value
    return arrays
