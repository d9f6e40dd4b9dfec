"""The replay buffer in segments against the buffer itself, through wraps, joins and damage."""

import dataclasses
import random

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.buffers import ReplayBuffer

from wolpertinger import CheckpointError
from wolpertinger.agent import segments
from wolpertinger.agent.buffer_files import buffer_arrays
from wolpertinger.agent.segments import read_list, read_segments, write_list, write_new

OBS, ACTIONS = gym.spaces.Box(-1, 1, (3,), np.float32), gym.spaces.Discrete(5)


def new_buffer(size=20, n_envs=2, **options):
    return ReplayBuffer(size * n_envs, OBS, ACTIONS, n_envs=n_envs, device="cpu", **options)


def add(buffer, rng, rows):
    for _ in range(rows):
        obs, after = rng.normal(size=(2, 2, 3)).astype(np.float32)
        buffer.add(obs, after, rng.integers(5, size=2), rng.normal(size=2), rng.random(2) < 0.2, [{}, {}])


def same(one, other):
    assert (one.pos, one.full) == (other.pos, other.full)
    for name, array in buffer_arrays(one).items():
        assert np.array_equal(array, buffer_arrays(other)[name]), name


SHARED = {"optimize_memory_usage": True, "handle_timeout_termination": False}


@pytest.mark.parametrize("options", [{}, SHARED], ids=["plain", "shared observations"])
@pytest.mark.parametrize("segment_bytes", [1, 600, 10**6])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_bit_by_bit_is_what_the_buffer_holds(seed, segment_bytes, options, tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_BYTES", segment_bytes)
    rng, dice = np.random.default_rng(seed), random.Random(seed)
    buffer, stored, found = new_buffer(**options), 0, []
    for _ in range(12):
        rows = dice.choice([0, 1, 2, 5, 19, 20, 21, 45])
        add(buffer, rng, rows)
        stored += rows
        if stored:
            buffer.timeouts[buffer.pos - 1, 0] = 1  # what may be noted of a row that was written already
        found = write_new(tmp_path, buffer, stored, found)
        again = new_buffer(**options)
        read_segments(tmp_path, again, *read_list(write_list(stored, found)))
        same(again, buffer)
        assert all(part.stop > stored - buffer.buffer_size for part in found)


def test_only_what_is_new_is_written_and_many_small_segments_become_few(tmp_path):
    buffer, rng, found, written = new_buffer(size=10_000), np.random.default_rng(0), [], 0
    for step in range(1, 201):
        add(buffer, rng, 5)
        before = {part.name for part in found}
        found = write_new(tmp_path, buffer, 5 * step, found)
        written += sum(part.stop - part.start for part in found if part.name not in before)
    assert len(found) < 20
    assert written < 12 * 1_000  # each row some times, not two hundred


@pytest.fixture
def saved(tmp_path):
    buffer = new_buffer()
    add(buffer, np.random.default_rng(0), 30)
    return tmp_path, write_new(tmp_path, buffer, 30, [])


@pytest.mark.parametrize("change", ["flip", "cut", "gone"])
def test_a_damaged_segment_is_named(change, saved):
    folder, (part,) = saved
    data = bytearray((folder / part.name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / part.name).write_bytes(data if change == "flip" else data[:-1])
    if change == "gone":
        (folder / part.name).unlink()
    with pytest.raises(CheckpointError, match=rf"{part.name}.*(is damaged|cannot be read)"):
        read_segments(folder, new_buffer(), 30, [part])


def test_segments_that_do_not_cover_the_buffer_are_refused(saved):
    folder, (part,) = saved
    with pytest.raises(CheckpointError, match="segments end at row 30, 40 were saved"):
        read_segments(folder, new_buffer(), 40, [part])
    with pytest.raises(CheckpointError, match="holds rows 10 to 30, 5 is next"):
        read_segments(folder, new_buffer(size=25), 30, [part])
    with pytest.raises(CheckpointError, match=r"this agent's replay buffer"):
        read_segments(folder, new_buffer(n_envs=1), 30, [part])


@pytest.mark.parametrize("facts", [{"name": "../rows-1-0123456789abcdef.safetensors"}, {"start": -1}, {"bytes": 0.5}])
def test_a_list_that_lies_is_refused(facts, saved):
    with pytest.raises(ValueError, match="is no segment of a replay buffer"):
        dataclasses.replace(saved[1][0], **facts)


def test_a_buffer_with_a_state_of_its_own_is_refused(tmp_path):
    class Own(ReplayBuffer):
        pass

    with pytest.raises(TypeError, match="a Own cannot be kept in checkpoints of a run: ReplayBuffer"):
        write_new(tmp_path, Own(10, OBS, ACTIONS), 0, [])
