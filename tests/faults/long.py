"""Long runs: memory, open files and threads stay as they are after the first fifth; removed rows and old files go.

Predictions come one by one and in batches of 256 in turn: 256 of each 257 of the count are in batches.
"""

import ctypes
import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from wolpertinger import ActionTable, Wolpertinger
from wolpertinger.agent.checkpoint_folder import CheckpointFolder
from wolpertinger.index.store import MIN_PACKED

LOOKS, WARM = 10, 2  # at what the process holds, in equal distances; the first ones come before all is set up
MOST_GROWTH = 16 << 20  # bytes
ROWS, DIM, STATE, BATCH = 2_000, 4, 3, 256
ALIVE, CHANGED = 500, 500  # rows of a catalogue, and of a change to it
MOST_FILES = 16  # of a folder with three checkpoints


class Draws(gym.Env):
    """States and rewards at random."""

    observation_space = gym.spaces.Box(-1, 1, (STATE,), np.float32)
    action_space = gym.spaces.Discrete(ROWS)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, STATE).astype(np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs = self.np_random.uniform(-1, 1, STATE).astype(np.float32)
        return obs, self.np_random.random(), self.np_random.random() < 0.1, False, {}


class Holdings:
    """What the process holds, looked at again and again."""

    def __init__(self) -> None:
        self.looks: list[dict[str, int]] = []

    def look(self) -> None:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
        files, threads = (len(list(Path("/proc/self", name).iterdir())) for name in ("fd", "task"))
        self.looks.append({"bytes": int(line.split()[1]) << 10, "files": files, "threads": threads})

    def judge(self, kept: int = 0) -> dict[str, Any]:
        """How much more there was at the end than after the first looks, of which so many bytes are meant to be."""
        grown = {name: self.looks[-1][name] - self.looks[WARM - 1][name] for name in self.looks[0]}
        most = {"bytes": MOST_GROWTH + kept, "files": 0, "threads": 0}
        failures = [f"{grown[name]} {name} more" for name in grown if grown[name] > most[name]]
        counts = {"more_kB": grown["bytes"] >> 10, "more_files": grown["files"], "more_threads": grown["threads"]}
        return {**counts, "failures": failures}


def _new_agent(seed: int) -> Wolpertinger:
    table = ActionTable(np.random.default_rng(seed).normal(size=(ROWS, DIM)).astype(np.float32))
    small = {"learning_starts": 100, "batch_size": 16, "buffer_size": 2_000, "policy_kwargs": {"net_arch": [16, 16]}}
    return Wolpertinger("MlpPolicy", Draws(), actions=table, k=8, candidates="nearest", seed=seed, **small)


def _in_turns(count: int, work: Callable[[int], int]) -> tuple[int, Holdings]:
    """Do so much in all, which `work` tells of itself, with looks in between."""
    done, holdings = 0, Holdings()
    for look in range(1, LOOKS + 1):
        while done < count * look // LOOKS:
            done += work(done)
        holdings.look()
    return done, holdings


def predictions(count: int, seed: int = 0) -> dict[str, Any]:
    """So many predictions of an agent that has learned a little."""
    agent, rng = _new_agent(seed).learn(200), np.random.default_rng(seed)

    def work(done: int) -> int:
        obs = rng.uniform(-1, 1, (BATCH + 1, STATE)).astype(np.float32)
        agent.predict(obs[0])
        return 1 + len(agent.predict(obs[1:])[0])

    done, holdings = _in_turns(count, work)
    return {"predictions": done, "one_by_one": done // (BATCH + 1), **holdings.judge()}


def training(count: int, seed: int = 0) -> dict[str, Any]:
    """So many steps with their updates, the replay buffer going round, and a checkpoint at every look."""
    agent, holdings = _new_agent(seed), Holdings()
    with tempfile.TemporaryDirectory() as place:
        checkpoints, most = CheckpointFolder(Path(place)), 0

        class Looking(BaseCallback):
            def _on_step(self) -> bool:
                nonlocal most
                if self.num_timesteps % max(1, count // LOOKS) == 0:
                    checkpoints.save(agent)
                    holdings.look()
                    most = max(most, len(list(Path(place).iterdir())))
                return True

        agent.learn(count, Looking())
    found = holdings.judge()
    if most > MOST_FILES:
        found["failures"].append(f"{most} files of three checkpoints")
    return {"steps": agent.num_timesteps, "updates": agent._n_updates, "most_files": most, **found}


def changes(count: int, seed: int = 0) -> dict[str, Any]:
    """So many rows added to a catalogue of 500 and as many removed: what is searched does not grow with them.

    The vectors of removed rows are kept by id, in memory that doubles as it is full: `embed` gives them.
    """
    rng = np.random.default_rng(seed)
    tables = [ActionTable(rng.normal(size=(ALIVE, DIM)), index=index) for index in ("exact", "IVF8,Flat")]
    searched = 0

    def work(done: int) -> int:
        nonlocal searched
        rows = rng.normal(size=(CHANGED, DIM)).astype(np.float32)
        for table in tables:
            table.add(rows)
            table.remove(rng.choice(table.ids, CHANGED, replace=False))
            table.nearest(rows[:4], 5)
            searched = max(searched, table._store.packed().size)
        return CHANGED

    done, holdings = _in_turns(count, work)
    kept = sum(2 * int(table.space.n) * (4 * DIM + 1) for table in tables)
    found = holdings.judge(kept)
    if searched > 2 * (ALIVE + CHANGED) + MIN_PACKED:
        found["failures"].append(f"{searched} rows are searched of {ALIVE}")
    return {"rows": done, "alive": ALIVE, "most_searched": searched, "most_kB_by_id": kept >> 10, **found}
