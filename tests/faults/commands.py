"""Odd command lines: one line that says what is wrong and exit code 2, or a run; never a traceback."""

import os
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.faults.odd import OURS, count, describe, is_ours, meet
from wolpertinger import cli

VALUES = (
    *("", " ", "0", "-1", "1", "2", "3", "0.5", "-0.5", "1.5", "1e400", "1e-400", "nan", "inf", "-inf", "abc", "1_0"),
    *("99999999999", "9" * 30, "9" * 5_000, "0x10", "١٢", "true", "null", "[]", "[1]", "{}", '{"a": 1}', "[" * 20_000),
    *("é", "%s", "%(default)s", "--", "-", "a b", "\n", ".", "..", "/", "/proc/nowhere/at/all", "x" * 5_000),
    *("HNSW1", "IVF4_HNSW1,Flat", "Flat", "slow", "auto", "cuda", "meta", "generated", "complete-journey", "price"),
    *("Pendulum-v1", "CartPole-v1", "Nope-v1", "nowhere:Nope-v1", "ALE/Pong-v5", "20000", "file.npy", "text.txt"),
)
SETTINGS = (
    *("learning_rate", "final_learning_rate", "actor_learning_rate", "gamma", "tau", "n_steps", "batch_size"),
    *("learning_starts", "train_freq", "gradient_steps", "buffer_size", "policy_kwargs", "policy_kwargs.net_arch"),
    *("policy_kwargs.n_critics", "policy_kwargs.dropout", "policy_kwargs.bound", "policy_kwargs.colour", "critic"),
    *("critic.kind", "critic.width", "critic.state_embedding", "candidates", "candidates.refresh_every", "learner"),
    *("learner.anchor", "learner.target_samples", "exploration", "exploration.noise", "exploration.epsilon"),
    *("exploration.guided", "exploration.colour", "seed", "k", "env", "verbose", "standardize", "preset", "rerank"),
    *("replay_buffer_class", "replay_buffer_kwargs", "replay_buffer_kwargs.n_steps", "stats_window_size", "allowed"),
    *("tensorboard_log", "optimize_memory_usage", "on_bad_transition", "colour", "a.b.c", "", ".", "policy_kwargs."),
)
RUN = ["--steps", "40", "--envs", "4", "--seconds", "3", "--threads", "1", "--set", "learning_starts=16"]
RUN += ["--set", "batch_size=8", "--set", "policy_kwargs.net_arch=[8,8]", "--out", "out"]
SHARED = ("--preset", "--k", "--recall", "--build-seconds", "--steps", "--seconds", "--envs", "--seed", "--out")
SHARED += ("--checkpoint-every", "--device", "--threads", "--resume", "--set")
COMMANDS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "recommender": (
        ["train", "recommender", "--items", "30", "--dim", "3", *RUN],
        ("--items", "--dim", "--data", "--reward", "--median-best", "--data-seed", "--guided", *SHARED),
    ),
    "recommender, nearest": (["train", "recommender", "--items", "30", "--preset", "nearest", *RUN], SHARED),
    "cart-pole": (["train", "cart-pole", "--levels", "11", *RUN], ("--levels", *SHARED)),
    "puddle-world": (
        ["train", "puddle-world", "--plan", "4", "--size", "6", *RUN],
        ("--plan", "--size", "--map-seed", "--map", "--window", "--max-moves", *SHARED),
    ),
    "control": (["train", "control", "--levels", "11", *RUN], ("--env-id", "--levels", *SHARED)),
    "resume": (["train", "--resume", "run"], ("--resume",)),
    "evaluate": (
        ["evaluate", "run", "--episodes", "2", "--top", "2"],
        ("--checkpoint", "--episodes", "--top", "--json", "--colour"),
    ),
    "watch": (
        ["watch", "run", "--out", "film.gif"],
        ("--out", "--episodes", "--seed", "--fps", "--every", "--checkpoint"),
    ),
    "index tune": (
        ["index", "tune", "file.npy", "--k", "3", "--build-seconds", "1"],
        ("--k", "--recall", "--queries", "--batch", "--build-seconds", "--recipe", "--threads", "--out"),
    ),
}
"""A command that works, and its options."""


def odd_commands(tries: int, seed: int = 0) -> dict[str, Any]:
    """One or two odd options of a command, or one of its words replaced."""
    rng = random.Random(seed)
    outcomes = ("accepted", "refused", "foreign", "tracebacks", "crashes", "hangs", "most_megabytes")
    found: dict[str, Any] = {"tries": 0, **dict.fromkeys(outcomes, 0), "foreign_errors": [], "failures": []}
    with tempfile.TemporaryDirectory() as place:
        _make_files(Path(place))
        for number in range(tries):
            line, shown = _draw(rng)
            own = Path(place) / f"try-{number}"
            own.mkdir()
            for name in ("run", "file.npy", "text.txt"):
                (own / name).symlink_to(Path(place) / name)
            count(found, f"{shown}", meet(partial(_run, line, own)))
    return found


def _draw(rng: random.Random) -> tuple[list[str], str]:
    """A command line, and what is odd about it."""
    name = rng.choice(list(COMMANDS))
    line, options = list(COMMANDS[name][0]), COMMANDS[name][1]
    if rng.random() < 0.1:  # one of its words
        place = rng.randrange(len(line))
        line[place] = rng.choice(VALUES)
        return line, f"{name}: word {place} {line[place][:40]!r}"
    shown = []
    for option in rng.sample(options, min(len(options), rng.choice((1, 1, 1, 2)))):
        value = rng.choice(VALUES)
        if option == "--set":
            value = f"{rng.choice(SETTINGS)}={value}"
        line += [option, value] if rng.random() < 0.5 else [f"{option}={value}"]
        shown.append(f"{option} {value[:40]!r}")
    return line, f"{name}: {' '.join(shown)}"


def _make_files(place: Path) -> None:
    """A run to evaluate, vectors to look up."""
    np.save(place / "file.npy", np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32))
    (place / "text.txt").write_text("S.\n.G\n")
    line = [*COMMANDS["puddle-world"][0], "--out", str(place / "run")]
    done = meet(lambda: _finish(line))
    assert done["came_to"] == "accepted", done


def _finish(line: list[str]) -> None:
    assert cli.main(line) == 0


def _run(line: list[str], place: Path) -> dict[str, Any]:
    """Run it in this process, which is a child; what it came to."""
    os.chdir(place)
    seen: list[Exception] = []
    sys.stderr, sys.stdout = open("errors.txt", "w", buffering=1), open(os.devnull, "w")  # noqa: SIM115
    os.dup2(sys.stderr.fileno(), 2)
    original = cli.explain_errors

    def noting(prog: str, run: Callable[[], None], *types: type[Exception]) -> int:
        def noted() -> None:
            try:
                run()
            except Exception as error:
                seen.append(error)
                raise

        return original(prog, noted, *types)

    cli.explain_errors = noting  # type: ignore[assignment]
    try:
        code = cli.main(line)
    except SystemExit as left:  # argparse has explained it
        code = left.code if isinstance(left.code, int) else 1
    except BaseException as error:
        return {"came_to": "traceback", "said": describe(error)}
    said = Path("errors.txt").read_text(errors="replace")
    if "Traceback" in said or code not in (0, 2):
        return {"came_to": "traceback", "said": f"exit code {code}: {said[-300:]}"}
    if code == 2 and not said.strip():
        return {"came_to": "traceback", "said": "exit code 2 without a word"}
    if seen and not is_ours(seen[0], (*OURS, OSError, ImportError)):
        return {"came_to": "foreign", "said": describe(seen[0])}
    return {"came_to": "refused" if code else "accepted", "said": ""}
