"""Small runs by the command line, in processes that can be killed, and what is compared of them at the end."""

import csv
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import safetensors.numpy
import torch

from wolpertinger import Wolpertinger, archive
from wolpertinger.agent.buffer_files import buffer_arrays
from wolpertinger.agent.checkpoint import KIND, TRAINING, TRAINING_ARRAYS
from wolpertinger.agent.segments import checkpoints_in
from wolpertinger.cli import main
from wolpertinger.runs.build import make_env
from wolpertinger.runs.config import read_config
from wolpertinger.runs.run_folder import STATE

SMALL = ["--set", "batch_size=16", "--set", "policy_kwargs.net_arch=[16,16]", "--set", "learning_starts=64"]
NEAREST = ["--preset", "nearest"]
TASKS = {
    "recommender, two towers": ["recommender", "--items", "49", "--dim", "4", "--envs", "8", "--steps", "2400"],
    "recommender, nearest": ["recommender", "--items", "49", "--dim", "4", "--envs", "8", "--steps", "2400", *NEAREST],
    "cart-pole, nearest": ["cart-pole", "--envs", "4", "--steps", "1600", "--set", "buffer_size=800"],
    "puddle-world, nearest": ["puddle-world", "--plan", "4", "--size", "6", "--envs", "4", "--steps", "1200"],
}
RANDOM = ("random", "explorer", "learner", "env")  # parts of a training state
EVERY = "0.2"  # seconds from one checkpoint to the next


def start(arguments: list[str], errors: Path) -> int:
    """A process that runs the command, without what it prints; its id."""
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        # A fork instead of a new interpreter saves the imports; with one thread no pool of threads is lost by it.
        with errors.open("a", buffering=1) as sys.stderr, open(os.devnull, "w") as sys.stdout:
            os.dup2(sys.stderr.fileno(), 2)
            os.dup2(sys.stdout.fileno(), 1)
            os._exit(main(arguments))
    return child


def train(task: str, folder: Path) -> int:
    options = ["--checkpoint-every", EVERY, "--threads", "1", "--out", str(folder)]
    return start(["train", *TASKS[task], *SMALL, *options], folder.with_suffix(".errors"))


def resume(folder: Path) -> int:
    return start(["train", "--resume", str(folder)], folder.with_suffix(".errors"))


def wait(child: int, seconds: float | None = None) -> int | None:
    """The exit code, or None if it goes on after so many seconds."""
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, 0 if end is None else os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if end is not None and time.monotonic() >= end:
            return None
        time.sleep(0.002)


def kill(child: int, signum: int = signal.SIGKILL) -> None:
    os.kill(child, signum)


def digest(*parts: object) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else repr(part).encode())
    return found.hexdigest()


def fingerprint(folder: Path) -> dict[str, str]:
    """Of what a finished run has come to: weights, moments, buffer, random numbers, curve and log."""
    path = checkpoints_in(folder / STATE)[0]
    files = archive.read(path, KIND)
    state = json.loads(files[TRAINING])["dict"]
    agent = Wolpertinger.load(path, env=make_env(read_config(folder)), device="cpu")
    networks = sorted(agent.policy.state_dict().items())
    moments = [
        (name, index, key, value)
        for name in ("actor", "critic")
        for index, values in sorted(getattr(agent, name).optimizer.state_dict()["state"].items())
        for key, value in sorted(values.items())
    ]
    buffer = sorted(buffer_arrays(agent.replay_buffer).items())
    return {
        "weights": digest(*(part for name, tensor in networks for part in (name, _bytes(tensor)))),
        "moments": digest(*(part for *name, tensor in moments for part in (name, _bytes(tensor)))),
        "buffer": digest(agent.replay_buffer.pos, *(part for name, array in buffer for part in (name, _bytes(array)))),
        "random": digest({name: state[name] for name in RANDOM}, _arrays(files)),
        "curve": digest(rows_of(folder / "curve.csv", ("seconds",))),
        "log": digest(log_steps(folder)),
    }


def _bytes(numbers: object) -> bytes:
    return np.ascontiguousarray(torch.as_tensor(numbers).numpy()).tobytes()


def _arrays(files: dict[str, bytes]) -> bytes:
    """The arrays of random numbers and environments, beside numbers that only the log shows."""
    found = safetensors.numpy.load(files[TRAINING_ARRAYS])
    kept = [
        name for name in sorted(found) if name.split(".")[1] in ("random", "explorer", "learner", "env", "last_obs")
    ]
    return b"".join(name.encode() + found[name].tobytes() for name in kept)


def rows_of(path: Path, without: tuple[str, ...]) -> list[list[tuple[str, str]]]:
    with path.open(newline="") as file:
        return [
            sorted((name, value) for name, value in row.items() if name not in without) for row in csv.DictReader(file)
        ]


def log_steps(folder: Path) -> list[str]:
    """The steps that the log has a row for."""
    with (folder / "logs" / "progress.csv").open(newline="") as file:
        return [row["time/total_timesteps"] for row in csv.DictReader(file)]


def event_steps(folder: Path) -> list[int]:
    """The steps that TensorBoard has a point for, in all files."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    return sorted(
        event.step
        for path in (folder / "logs").glob("events.out.tfevents.*")
        for event in EventFileLoader(str(path)).Load()
        for value in event.summary.value
        if value.tag == "time/fps"
    )
