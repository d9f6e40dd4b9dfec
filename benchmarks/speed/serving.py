"""How fast `wolpertinger serve` answers: `python -m benchmarks.speed.serving`.

A million actions behind an index, k = 100, one process; clients are one other process on the same machine. Beside it: a
FastAPI route that does nothing, and `agent.rank` in process. results/speed/serving.json holds latencies, throughputs
and an overload.
"""

import argparse
import asyncio
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.measure import describe_index, read_result, say, write_result
from wolpertinger import ActionTable, Wolpertinger

ROWS, DIM, K, RECALL = 1_000_000, 20, 100, 0.99
CLIENTS, STATES = 64, 64
WARM = 20  # batches
TOLERANCE = 1e-4
QUEUE, CROWD = 64, 640  # of the overload: ten times as many clients as may wait
NOOP = """
import uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/v1/rank")
async def nothing():
    return {"ranked": []}
config = uvicorn.Config(app, port=0, log_level="warning", access_log=False)
socket = config.bind_socket()
socket.listen()
print(f"serving at http://127.0.0.1:{socket.getsockname()[1]}", flush=True)
uvicorn.Server(config).run(sockets=[socket])
"""


class Blank(gym.Env):
    """Spaces, and nothing that happens in them."""

    def __init__(self, rows: int) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (DIM,), np.float32)
        self.action_space = gym.spaces.Discrete(rows)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(DIM, np.float32), {}


def make_agent(rows: int) -> Wolpertinger:
    """An untrained agent, whose index is chosen by its own proto-actions."""
    vectors = np.random.default_rng(0).standard_normal((rows, DIM), dtype=np.float32)
    actions = ActionTable(vectors, recall=RECALL)
    agent = Wolpertinger("MlpPolicy", Blank(rows), actions, k=K, seed=0, preset="paper", device="cpu", buffer_size=1)
    for seed in range(1, WARM + 1):  # as after a training: the index is tuned by what it was asked
        agent.predict(some_states(512, seed))
    return agent


def some_states(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, (count, DIM)).astype(np.float32)


@contextmanager
def running(*command: str) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its port and its number."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        yield int(line.rsplit(":", 1)[1]), process.pid
    finally:
        process.terminate()
        process.wait()


def serving(path: Path, *options: str) -> Any:
    return running("-m", "wolpertinger", "serve", str(path), "--port", "0", "--watch", "0", *options)


class Load:
    """Clients that each ask again as soon as they are answered."""

    def __init__(self, port: int, states: Any, agent: Wolpertinger | None = None) -> None:
        self.port, self.states, self.agent = port, states, agent
        bodies = [json.dumps({"observation": state.tolist(), "top": 1}).encode() for state in states]
        head = "POST /v1/rank HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n".format
        self.requests = [head(len(body)).encode() + body for body in bodies]
        self.answered: list[float] = []
        self.refused: list[float] = []
        self.bodies: set[tuple[int, bytes]] = set()  # the different answers to each state

    def run(self, clients: int, seconds: float) -> dict[str, Any]:
        """Latencies in milliseconds, and answers a second."""
        self.answered, self.refused, self.bodies = [], [], set()
        start = time.perf_counter()
        asyncio.run(self._run(clients, start + seconds))
        spent = time.perf_counter() - start
        found: dict[str, Any] = {
            "clients": clients,
            "seconds": round(spent, 1),
            "answered": len(self.answered),
        }
        found |= {} if self.agent is None else {"wrong": self._wrong(self.agent)}
        found |= {"per_second": round(len(self.answered) / spent, 1), "ms": _quantiles(self.answered)}
        return found | ({"refused": len(self.refused), "refused_ms": _quantiles(self.refused)} if self.refused else {})

    def _wrong(self, agent: Wolpertinger) -> int:
        """Different answers whose value is not the critic's own of that action in that state.

        Which of nearly equal actions an index finds depends on its last tuning; their values do not.
        """
        wrong = 0
        for number, body in self.bodies:
            best = json.loads(body)["ranked"][0]
            own = agent.rank(self.states[number], 1, allowed=[best["action"]]).values[0]
            wrong += abs(own - best["value"]) > TOLERANCE
        return int(wrong)

    async def _run(self, clients: int, until: float) -> None:
        await asyncio.gather(*(self._ask(number, until) for number in range(clients)))

    async def _ask(self, number: int, until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while time.perf_counter() < until:
            number = (number + 1) % len(self.requests)
            start = time.perf_counter()
            writer.write(self.requests[number])
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, flags=re.IGNORECASE)
            assert length is not None
            body = await reader.readexactly(int(length[1]))
            spent = time.perf_counter() - start
            if b" 200 " in head[:16]:
                self.answered.append(spent)
                self.bodies.add((number, body))
            else:
                self.refused.append(spent)
                await asyncio.sleep(0.05)  # it was told to come back later
        writer.close()
        await writer.wait_closed()


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds) or [math.inf]
    shown = {"median": 0.5, "p95": 0.95, "p99": 0.99, "most": 1.0}
    return {name: round(1e3 * ordered[int(share * (len(ordered) - 1))], 3) for name, share in shown.items()}


def resident(pid: int) -> float:
    """Memory of a process in MB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return round(int(found[1]) / 1024, 1)


def measure_load(path: Path, agent: Wolpertinger, states: Any, seconds: float) -> dict[str, Any]:
    """One client and many, batched and one at a time, beside a route that does nothing."""
    found: dict[str, Any] = {}
    with serving(path) as (port, _):
        load = Load(port, states, agent)
        load.run(CLIENTS, 2)  # warm
        found["one client"] = load.run(1, seconds)
        found["many clients"] = load.run(CLIENTS, seconds)
    with serving(path, "--batch", "1") as (port, _):
        load = Load(port, states, agent)
        load.run(CLIENTS, 2)
        found["many clients, one request at a time"] = load.run(CLIENTS, seconds)
    with running("-c", NOOP) as (port, _):
        load = Load(port, states)
        load.run(CLIENTS, 2)
        found["one client, a route that does nothing"] = load.run(1, seconds)
        found["many clients, a route that does nothing"] = load.run(CLIENTS, seconds)
    return found


def measure_overload(path: Path, agent: Wolpertinger, states: Any, seconds: float) -> dict[str, Any]:
    """Ten times as many clients as may wait; then one again."""
    with serving(path, "--queue", str(QUEUE), "--batch", str(QUEUE)) as (port, pid):
        load = Load(port, states, agent)
        calm = load.run(1, 3)
        load.run(CROWD, 5)
        before = resident(pid)
        crowded = load.run(CROWD, seconds)
        after, again = resident(pid), load.run(1, 3)
    return {"before": calm, "crowd": crowded, "after": again, "resident_mb": {"before": before, "after": after}}


def measure_in_process(agent: Wolpertinger, states: Any, seconds: float) -> dict[str, float]:
    samples: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        agent.rank(states[len(samples) % len(states)], 1)
        samples.append(time.perf_counter() - start)
    return _quantiles(samples)


def serving_table() -> str:
    """Latency and throughput of each load."""
    found = read_result("speed.serving")
    if found is None:
        return "missing"
    crowd = {f"overload: {CROWD} clients, {QUEUE} may wait": found["overload"]["crowd"]}
    lines = ["| | median ms | 99 % ms | answers a second | wrong | refused, 99 % ms |", "| --- " + "| ---: " * 5 + "|"]
    own = found["in_process_ms"]
    lines.append(f"| `agent.rank` in process | {own['median']:.1f} | {own['p99']:.1f} | | | |")
    for name, row in {**found["load"], **crowd}.items():
        refused = f"{row['refused']:,}, {row['refused_ms']['p99']:,.0f}" if "refused" in row else ""
        times = f"{row['ms']['median']:.1f} | {row['ms']['p99']:.1f} | {row['per_second']:,.0f}"
        lines.append(f"| {name} | {times} | {row.get('wrong', '')} | {refused} |")
    resident, load = found["overload"]["resident_mb"], found["machine"]["load_at_end"][0]
    lines.append("")
    told = f"{found['rows']:,} actions, k = {found['k']}, recall {found['recall']}; many clients are {CLIENTS}."
    memory = f"{resident['before']:,.0f} and {resident['after']:,.0f} MB"
    cores = f"{found['machine']['cores']} cores, load {load} at the end"
    lines.append(f"{told} Memory before and after the overload: {memory}. {cores}.")
    return "\n".join(lines)


TABLES = {("docs/serving.md", "serving"): serving_table}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    agent, states = make_agent(options.rows), some_states(STATES)
    say(describe_index(agent))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.zip"
        agent.save(path)
        agent = Wolpertinger.load(path, device="cpu")
        told = {"rows": options.rows, "dim": DIM, "k": K, "recall": RECALL, "index": describe_index(agent)}
        in_process = measure_in_process(agent, states, options.seconds)
        say(f"in process {in_process}")
        load = measure_load(path, agent, states, options.seconds)
        for name, row in load.items():
            say(f"{name}: {row}")
        overload = measure_overload(path, agent, states, 3 * options.seconds)
        say(f"overload: {overload}")
    gain = load["many clients"]["per_second"] / load["many clients, one request at a time"]["per_second"]
    ratios = {"many clients, batched over one at a time": round(gain, 2)}
    told["command"] = f"python -m benchmarks.speed.serving --rows {options.rows} --seconds {options.seconds:g}"
    told |= {"in_process_ms": in_process, "load": load, "overload": overload, "ratios": ratios}
    print(write_result("speed.serving", told))


if __name__ == "__main__":
    main()
