"""What it costs not to lose a run: `python -m benchmarks.checkpoints`.

A checkpoint with a million transitions in the replay buffer, and what is new in 30 s of training, beside a file with
the whole buffer; and an update that looks whether its gradients are finite beside one that does not.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.measure import read_result, say, spread, summarise, write_result
from wolpertinger import Wolpertinger
from wolpertinger.agent.buffer_files import buffer_arrays
from wolpertinger.agent.checkpoint_folder import CheckpointFolder
from wolpertinger.learners import ddpg
from wolpertinger.learners.base import minimise
from wolpertinger.runs import make_config
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.checkpointing import EVERY_SECONDS
from wolpertinger.threads import using_threads

TRANSITIONS, CHECKPOINTS, WHOLE, ROUNDS, UPDATES = 1_000_000, 12, 3, 100, 4


def new_agent(**changes: Any) -> Wolpertinger:
    """Of the recommender of 835 items in 20 dimensions, as the preset has it."""
    config = make_config("recommender", changes=changes)
    return make_agent(config, make_env(config), "cpu")


def fill(agent: Wolpertinger, rng: np.random.Generator) -> None:
    """A full replay buffer of random numbers."""
    for array in buffer_arrays(agent.replay_buffer).values():
        array[:] = rng.integers(0, 2, array.shape) if array.dtype.kind in "iu" else rng.random(array.shape)
    agent.replay_buffer.full, agent.replay_buffer.pos = True, 0
    agent._rows_stored = agent.replay_buffer.buffer_size


def measure_checkpoints() -> dict[str, Any]:
    """Seconds of checkpoints of a run under way, and of files with all of the buffer."""
    agent = new_agent().learn(30_000)
    start, before, begun = time.perf_counter(), agent.num_timesteps, time.process_time()
    agent.learn(60_000, reset_num_timesteps=False)
    trained, busy_training = time.perf_counter() - start, time.process_time() - begun
    rate = (agent.num_timesteps - before) / trained
    spent = EVERY_SECONDS * busy_training / trained  # of the processor, from one checkpoint to the next
    fill(agent, np.random.default_rng(0))
    new = min(int(rate * EVERY_SECONDS) // agent.n_envs, agent.replay_buffer.buffer_size)  # rows in 30 s
    with tempfile.TemporaryDirectory() as place:
        checkpoints = CheckpointFolder(Path(place) / "state")
        first = _seconds(lambda: checkpoints.save(agent))
        later, busy = [], []
        for _ in range(CHECKPOINTS):
            agent._rows_stored += new
            agent.replay_buffer.pos = agent._rows_stored % agent.replay_buffer.buffer_size
            begun = time.process_time()
            later.append(_seconds(lambda: checkpoints.save(agent)))
            busy.append(time.process_time() - begun)
        idle = [_seconds(lambda: checkpoints.save(agent)) for _ in range(CHECKPOINTS)]
        whole = [_seconds(lambda: agent.save(Path(place) / "all.zip", include=["training"])) for _ in range(WHOLE)]
    share = statistics.median(later) / EVERY_SECONDS
    facts = {"transitions": TRANSITIONS, "transitions_per_second": rate, "new_transitions": new * agent.n_envs}
    times = {
        "first": first,
        "checkpoint": spread(later),
        "checkpoint_processor": spread(busy),
        "nothing_new": spread(idle),
        "whole": spread(whole),
    }
    return {
        **facts,
        "seconds": times,
        "share_of_training": share,
        "share_of_processor": statistics.median(busy) / spent,
    }


def _seconds(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_guard() -> dict[str, Any]:
    """Processor seconds of updates of a small batch with and without the look at the gradients, in turn."""
    agents = {}
    for name in ("guarded", "plain"):
        agent = new_agent(batch_size=16, learning_starts=64, policy_kwargs={"net_arch": [64, 64]}, buffer_size=20_480)
        agent.learn(4_096)
        agents[name] = agent
    seconds: dict[str, list[float]] = {name: [] for name in agents}
    for _ in range(ROUNDS):
        for name, agent in agents.items():
            begun = time.process_time()
            _update(agent, plain=name == "plain")
            seconds[name].append((time.process_time() - begun) / UPDATES)
    ratios = [one / other for one, other in zip(seconds["guarded"], seconds["plain"], strict=True)]
    return {**{name: summarise(samples) for name, samples in seconds.items()}, "ratio": summarise(ratios)}


def _update(agent: Wolpertinger, *, plain: bool) -> None:
    with mock.patch.object(ddpg, "minimise", _minimise if plain else minimise):
        agent.train(UPDATES, agent.batch_size)


def _minimise(loss: Any, network: Any, max_grad_norm: float | None = None, *, name: str = "loss") -> dict[str, Any]:
    """As it was before it looked."""
    parameters = [parameter for group in network.optimizer.param_groups for parameter in group["params"]]
    for parameter in parameters:
        parameter.grad = None
    loss.backward(inputs=parameters)
    if max_grad_norm is not None:
        torch.nn.utils.clip_grad_norm_(parameters, max_grad_norm)
    network.optimizer.step()
    return {name: loss.detach()}


def cost_table() -> str:
    """What was measured, for docs/reliability.md."""
    if (found := read_result("checkpoints")) is None:
        return "missing"
    seconds, ratio = found["checkpoint"]["seconds"], found["guard"]["ratio"]["median"]
    new = found["checkpoint"]["new_transitions"]
    rows = {
        f"checkpoint with what is new in {EVERY_SECONDS:.0f} s ({new:,} transitions)": seconds["checkpoint"]["median"],
        "checkpoint with nothing new in the buffer": seconds["nothing_new"]["median"],
        "first checkpoint, all of the buffer": seconds["first"],
        'a file with everything, `save(include=["training"])`': seconds["whole"]["median"],
    }
    lines = [f"| {name} | {1000 * value:,.0f} ms |" for name, value in rows.items()]
    lines += [
        f"| share of training, a checkpoint every {EVERY_SECONDS:.0f} s | "
        f"{found['checkpoint']['share_of_training']:.1%} of the time, "
        f"{found['checkpoint']['share_of_processor']:.1%} of the processor's |",
        f"| an update of 16 transitions that looks at its gradients, beside one that does not | {ratio:.3f} times |",
    ]
    return "\n".join([f"| {TRANSITIONS:,} transitions of 20 numbers, one thread | |", "| --- | --- |", *lines])


def faults_table() -> str:
    """What the attacks of tests/faults came to, all rounds together."""
    found = read_result("faults")
    if found is None:
        return "missing"
    sums: dict[str, dict[str, int]] = {}
    for each in found["rounds"]:
        counts = sums.setdefault(each["attack"], {})
        for name, value in each.items():
            if isinstance(value, int) and name != "seed":
                counts[name] = (
                    max(counts.get(name, 0), value) if name.startswith("most") else counts.get(name, 0) + value
                )
        counts["failures"] = counts.get("failures", 0) + len(each.get("failures", []))
    lines = [
        f"| {name} | {', '.join(f'{count} {value:,}'.replace('_', ' ') for count, value in counts.items())} |"
        for name, counts in sorted(sums.items())
    ]
    return "\n".join(["| attack | what it came to |", "| --- | --- |", *lines])


def foreign_table() -> str:
    """Errors of others that odd arguments and command lines met, each once."""
    rounds = (read_result("faults") or {}).get("rounds", [])
    found = sorted({error for each in rounds for error in each.get("foreign_errors", [])})
    rows = (f"| `{_cell(error)}` |" for error in found)
    return "\n".join(["| what was given, and what was said |", "| --- |", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("`", "'")


TABLES = {
    ("docs/reliability.md", "faults"): faults_table,
    ("docs/reliability.md", "foreign errors"): foreign_table,
    ("docs/reliability.md", "cost of checkpoints"): cost_table,
}


def main() -> None:
    with using_threads(1):
        checkpoint = measure_checkpoints()
        say(str(checkpoint))
        guard = measure_guard()
        say(str(guard))
    write_result("checkpoints", {"checkpoint": checkpoint, "guard": guard})


if __name__ == "__main__":
    main()
