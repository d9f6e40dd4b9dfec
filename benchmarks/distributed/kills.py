"""Workers, a machine and the learner killed: does training go on, and is every transition stored once?

Three nodes of Ray's own test cluster are processes of this machine; a worker is killed every ten seconds.
"""

import argparse
import csv
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.distributed.stamped import count_faults
from benchmarks.measure import commit, read_result, say, write_result
from wolpertinger import Wolpertinger, runs
from wolpertinger.distributed.learner import Learner
from wolpertinger.distributed.workers import Workers
from wolpertinger.runs import RunConfig, make_config
from wolpertinger.runs.build import make_env
from wolpertinger.runs.signals import Interrupted, Stop

WORKERS, NODES = 3, 3
PARTS = ("workers", "learner")
ENVS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quiet-seconds", type=float, default=40, help="without kills, before and after")
    parser.add_argument("--killing-seconds", type=float, default=120)
    parser.add_argument("--every", type=float, default=10, help="seconds between two kills")
    parser.add_argument("--node-seconds", type=float, default=60, help="watched after a node was killed")
    parser.add_argument("--steps", type=int, default=12_000, help="of the learner that is killed")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    parts = {
        "workers": lambda folder: kill_workers(folder, options),
        "learner": lambda folder: kill_learner(folder, options.steps),
    }
    result = {**(read_result("distributed.kills") or {}), "commit": commit()}
    for name in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            result[name] = parts[name](Path(folder))
        say(f"{write_result('distributed.kills', result)}")


def config_of(**settings: Any) -> RunConfig:
    """A run in environments of 2 ms a step, with an evaluation at its end only."""
    options = {"n_envs": ENVS, "steps": 10**6, "seed": 0, **settings}
    env = {"env_id": "benchmarks.distributed.stamped:Waiting-v0", "levels": 101}
    return make_config("control", env=env, changes={"train_freq": 1, "gradient_steps": 1, "batch_size": 64}, **options)


class Timed(Learner):
    """A learner that remembers when each of its steps came."""

    def _on_step(self) -> None:
        self.workers.times.append((time.monotonic(), self.num_timesteps))  # type: ignore[attr-defined]


def kill_workers(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Phases of one run: quiet, kills, quiet, a node less."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=2) for _ in range(NODES)]
    ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False)
    config, stop = config_of(), Stop()  # so long a run that it is never evaluated
    workers: Any = Workers(ray, config, WORKERS)
    workers.times = []
    marks: dict[str, float] = {}
    plan = threading.Thread(target=carry_out, args=(options, cluster, nodes, workers, marks, stop), daemon=True)
    plan.start()
    with suppress(Interrupted):
        runs.train(config, folder / "run", quiet=True, stop=stop, agent_class=Timed.with_workers(workers))
    plan.join()
    workers.close()
    result = {
        **summarise(workers, marks, options),
        "stored": stored_in(folder / "run", config),
    }
    ray.shutdown()
    cluster.shutdown()
    return result


def carry_out(
    options: argparse.Namespace, cluster: Any, nodes: list[Any], workers: Any, marks: dict[str, Any], stop: Stop
) -> None:
    """Kill what is to be killed, when it is time."""
    while len(workers.times) < 500:  # processes start, the warm-up begins
        time.sleep(0.1)
    marks["begun"] = time.monotonic()
    time.sleep(options.quiet_seconds)
    marks["killing"] = time.monotonic()
    marks["killed"] = []
    while time.monotonic() < marks["killing"] + options.killing_seconds:
        alive = worker_processes()
        if alive:
            os.kill(victim := alive[len(marks["killed"]) % len(alive)], signal.SIGKILL)
            marks["killed"].append(victim)
            say(f"killed {victim}, {len(workers.times):,} steps so far")
        time.sleep(options.every)
    marks["quiet"] = time.monotonic()
    time.sleep(options.quiet_seconds)
    marks["node"] = time.monotonic()
    cluster.remove_node(nodes[0], allow_graceful=False)
    say("killed a node")
    time.sleep(options.node_seconds)
    marks["end"] = time.monotonic()
    stop.signum = signal.SIGTERM


def worker_processes() -> list[int]:
    """Processes of workers that this one's cluster runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_worker = (path / "cmdline").read_bytes().startswith(b"ray::Worker")
        except OSError:  # it has ended
            continue
        if is_worker and os.getpid() in ancestors(int(path.name)):
            found.append(int(path.name))
    return sorted(found)


def ancestors(process: int) -> set[int]:
    """The processes that a process descends from."""
    above: set[int] = set()
    while process > 1:
        try:
            text = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            break
        process = int(text.rpartition(")")[2].split()[1])
        above.add(process)
    return above


def summarise(workers: Any, marks: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Transitions per second and the longest pause of each phase."""
    times = np.array(workers.times)

    def rate(start: float, stop: float) -> dict[str, float]:
        own = times[(times[:, 0] >= start) & (times[:, 0] < stop)]
        edges = np.concatenate([[start], own[:, 0], [stop]])
        return {
            "transitions_per_second": len(own) * ENVS / (stop - start),
            "longest_pause": float(np.diff(edges).max()),
        }

    quiet = [rate(marks["begun"], marks["killing"]), rate(marks["quiet"] + options.quiet_seconds / 2, marks["node"])]
    killing = rate(marks["killing"], marks["quiet"])
    reference = float(np.mean([part["transitions_per_second"] for part in quiet]))
    return {
        "count": WORKERS,
        "nodes": NODES,
        "environments_per_worker": ENVS,
        "kills": len(marks["killed"]),
        "seconds_between_kills": options.every,
        "replaced": workers.lost,
        "fragments": workers.fragments,
        "dropped_fragments": workers.dropped,
        "quiet": quiet,
        "killing": killing,
        "share_of_quiet": killing["transitions_per_second"] / reference,
        "after_node": rate(marks["node"], marks["end"]),
    }


def stored_in(folder: Path, config: RunConfig) -> dict[str, int]:
    """What the replay buffer of a run's last checkpoint holds, looked at transition by transition."""
    env = make_env(config)
    agent = Wolpertinger.load(folder / "state", env=env)
    buffer, rows = agent.replay_buffer, agent.replay_buffer.size()
    obs, next_obs, actions, rewards = (
        part[:rows].reshape(rows * ENVS, -1)
        for part in (buffer.observations, buffer.next_observations, buffer.actions, buffer.rewards)
    )
    levels = agent.actions.embed(actions[:, 0])[:, 0]
    return {**count_faults(obs, next_obs, levels, rewards[:, 0]), "counted_by_the_run": agent.num_timesteps}


def kill_learner(folder: Path, steps: int) -> dict[str, Any]:
    """Kill the process of a learner amid its run, with all that it started, and resume from the last checkpoint."""
    config, run = config_of(steps=steps), folder / "learner"
    code = (
        "import sys; from pathlib import Path; from benchmarks.distributed.kills import config_of; "
        "from wolpertinger import distributed; "
        f"distributed.train(config_of(steps={steps}), Path(sys.argv[1]), workers=2, quiet=True, checkpoint_seconds=2)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(run)])
    progress = run / "logs" / "progress.csv"
    while steps_of(progress) < steps // 3:
        time.sleep(0.1)
        if process.poll() is not None:
            raise RuntimeError("the run ended before it was killed")
    process.kill()
    process.wait()
    before = Wolpertinger.load(run / "state", env=make_env(config)).num_timesteps
    time.sleep(5)
    left = len(worker_processes())
    from wolpertinger import distributed

    distributed.resume(run, workers=2, quiet=True)
    stored = stored_in(run, config)
    return {"killed_after": steps // 3, "resumed_at": before, "workers_left_behind": left, "stored": stored}


def steps_of(progress: Path) -> int:
    """How far a run's log has come."""
    if not progress.exists():
        return 0
    with progress.open(newline="") as file:
        return max((int(row["time/total_timesteps"] or 0) for row in csv.DictReader(file)), default=0)


if __name__ == "__main__":
    main()
