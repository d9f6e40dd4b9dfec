"""Checkpoints that cannot be written to their end: SIGKILL amid one, and a disk that is full."""

import os
import random
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

from tests.faults.tasks import kill, wait
from wolpertinger import CheckpointError, Wolpertinger
from wolpertinger.agent.buffer_files import buffer_arrays
from wolpertinger.agent.checkpoint_folder import CheckpointFolder
from wolpertinger.agent.segments import checkpoints_in
from wolpertinger.atomic import SaveError
from wolpertinger.runs import make_config
from wolpertinger.runs.build import make_agent, make_env

SMALL = {"learning_starts": 16, "batch_size": 16, "buffer_size": 400, "policy_kwargs": {"net_arch": [16, 16]}}
CONFIG = make_config("puddle-world", env={"plan": 4, "size": 6}, n_envs=2, steps=10**6, changes=SMALL)
LONGEST_WRITE = 0.05  # seconds that a checkpoint of this agent takes, about


def new_agent() -> Wolpertinger:
    return make_agent(CONFIG, make_env(CONFIG), "cpu")


def load(folder: Path) -> Wolpertinger:
    return Wolpertinger.load(folder, env=make_env(CONFIG), device="cpu")


def kill_while_saving(kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill a process so many times while it writes checkpoints into one folder; each time the last complete one loads.

    The process tells when it begins to write one; it is killed within the time that takes.
    """
    rng = random.Random(seed)
    found: dict[str, Any] = {"kills": 0, "loaded": 0, "most_files": 0, "lost_at_most_one": 0, "failures": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        CheckpointFolder(folder).save(new_agent().learn(20))
        for _ in range(kills):
            told, child = _start_saving(folder)
            begun = [os.read(told, 1) for _ in range(rng.randint(1, 5))]
            sleep(rng.uniform(0, LONGEST_WRITE))
            kill(child)
            wait(child)
            os.close(told)
            found["kills"] += 1
            _check(folder, len(begun), found)
    return found


def _start_saving(folder: Path) -> tuple[int, int]:
    """A process that trains on from the newest checkpoint and saves all the time; tells by a pipe when it begins to."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        newest = checkpoints_in(folder)[0]
        agent, checkpoints = load(newest), CheckpointFolder(folder, resumed=newest)
        while True:
            agent.learn(10, reset_num_timesteps=False)
            os.write(write, b".")
            checkpoints.save(agent)
    os.close(write)
    return read, child


def _check(folder: Path, begun: int, found: dict[str, Any]) -> None:
    before = found.setdefault("_steps", 20)
    try:
        agent = load(checkpoints_in(folder)[0])  # the newest itself: none that counts is damaged
    except CheckpointError as error:
        found["failures"].append(str(error))
        return
    found["loaded"] += 1
    found["lost_at_most_one"] += agent.num_timesteps >= before + 10 * (begun - 1)
    found["_steps"] = agent.num_timesteps
    rows = sum(array.nbytes for array in buffer_arrays(agent.replay_buffer).values())
    assert rows > 0
    found["most_files"] = max(found["most_files"], len(list(folder.iterdir())))


def fill_the_disk(tries: int, seed: int = 0) -> dict[str, Any]:
    """Save with room for a random part of what is needed: a typed error, and the checkpoint before is as it was."""
    rng = random.Random(seed)
    found: dict[str, Any] = {"tries": 0, "refused": 0, "saved": 0, "intact": 0, "went_on": 0, "litter": 0}
    with small_disk() as (folder, by):
        agent, checkpoints = new_agent().learn(400), CheckpointFolder(folder)
        path = checkpoints.save(agent)
        needed = path.stat().st_size
        for _ in range(tries):
            agent.learn(20, reset_num_timesteps=False)
            before = [(path, path.read_bytes()) for path in folder.iterdir()]
            with room_for(folder, rng.randrange(needed + 4_000)):
                try:
                    checkpoints.save(agent)
                    found["saved"] += 1
                except SaveError as error:
                    found["refused"] += int(error.path.parent == folder and error.needed > 0)
                    found["intact"] += all(path.read_bytes() == data for path, data in before)
            found["litter"] += len(list(folder.glob(".*")))
            found["went_on"] += load(folder).num_timesteps > 0
            found["tries"] += 1
        checkpoints.save(agent)  # there is room again
        assert load(folder).num_timesteps == agent.num_timesteps
        found["disk"] = by
    return found


@contextmanager
def small_disk() -> Iterator[tuple[Path, str]]:
    """A folder on a file system of its own, if this process may mount one, else a limit on the size of files."""
    with tempfile.TemporaryDirectory() as place:
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place]
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        try:
            yield Path(place), "tmpfs of 4 MB" if is_mounted else "RLIMIT_FSIZE"
        finally:
            if is_mounted:
                subprocess.run(["umount", place], check=True)


@contextmanager
def room_for(folder: Path, size: int) -> Iterator[None]:
    """So many bytes are left on the disk, or may be in a file."""
    if os.path.ismount(folder):
        free = os.statvfs(folder)
        filler = folder.with_name(folder.name) / "filler"
        filler.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - size)))
        try:
            yield
        finally:
            filler.unlink()
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
