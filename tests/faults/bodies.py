"""Bodies that no client sends on purpose, to a service in a process of its own: none may be answered by 500.

Half come from schemathesis, by the service's own OpenAPI document, fitting and not; half are good bodies that were
changed, and what is written down here. Slow senders and bodies of 100 MB come meanwhile.
"""

import json
import os
import random
import re
import socket
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

from tests.faults.serving import BROKEN, LOAD, Process
from tests.serve.conftest import make_agent
from tests.serve.started import TOKEN

RANK, EXPLAIN, INFER, ADD = "/v1/rank", "/v1/explain", "/v2/models/policy/infer", "/v1/actions"
GOOD: dict[str, Any] = {"observation": [0.1, 0.2, 0.3]}
TENSOR = {"name": "observation", "shape": [1, 3], "datatype": "FP32", "data": [0.1, 0.2, 0.3]}
BODIES: dict[str, dict[str, Any]] = {
    RANK: {**GOOD, "top": 3, "allowed": [1, 2, 5], "timeout_ms": 1_000},
    EXPLAIN: {**GOOD, "k": 4},
    INFER: {"id": "x", "inputs": [TENSOR], "outputs": [{"name": "action"}], "parameters": {"top": 2}},
    ADD: {"vectors": [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]},
    LOAD: {},
}
PIECES = [b"null", b"[[", b"]", b"1e308", b"-0", b'"top"', b"9" * 400, b"{}", b"\x00", b",", b'"', b"true", b"1.5"]
PIECES += [b"NaN", b"Infinity", b"-1e999", b"\xff", b"\\ud800", b"[" * 5_000, b'{"a":' * 2_000, b"1,2,3,4", b"[]"]
VALUES: list[Any] = [None, True, -1, 0, 2**31, 2**63, 2**64, 10**40, 1e39, 1e308, -0.0, "", "x" * 10_000, [], {}, [[]]]
VALUES += [[None], [[0.1, 0.2], [0.3]], [[[0.1, 0.2, 0.3]]], [0.1] * 10_000, {"a": {"b": {}}}, "NaN", [1e39] * 3]
LARGE, SLOW = 100 << 20, 8  # bytes; senders at once


def changed(draw: random.Random) -> tuple[str, bytes]:
    """A good body of which a value is another, or some bytes."""
    path = draw.choice(list(BODIES))
    if draw.random() < 0.5:
        return path, json.dumps(_with_another_value(draw, BODIES[path])).encode()
    body = bytearray(json.dumps(BODIES[path]).encode())
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(body))
        body[at : at + draw.randint(0, 6)] = draw.choice(PIECES)
    return path, bytes(body)


def _with_another_value(draw: random.Random, value: Any) -> Any:
    if draw.random() < 0.3 or not (isinstance(value, dict | list) and value):
        return draw.choice(VALUES)
    if isinstance(value, list):
        place = draw.randrange(len(value))
        return [_with_another_value(draw, own) if number == place else own for number, own in enumerate(value)]
    chosen = draw.choice(list(value))
    own = {name: part for name, part in value.items() if name != chosen}
    return own if draw.random() < 0.2 else {**own, chosen: _with_another_value(draw, value[chosen])}


def by_schema(port: int, count: int, seed: int) -> Iterator[tuple[str, int]]:
    """Method and path, and the status, of requests that schemathesis makes by the OpenAPI document."""
    import hypothesis
    import schemathesis

    modes = (schemathesis.GenerationMode.NEGATIVE, schemathesis.GenerationMode.POSITIVE)
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    chosen = [own for own in operations if own.method.upper() in ("POST", "DELETE") or own.path.count("{")]
    answered: list[tuple[str, int]] = []
    each = -(-count // (len(modes) * len(chosen)))
    for operation in chosen:
        for mode in modes:
            settings = hypothesis.settings(
                max_examples=each, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
            )

            @hypothesis.seed(seed)
            @settings
            @hypothesis.given(operation.as_strategy(generation_mode=mode))
            def ask(case: Any) -> None:
                answer = case.call(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
                answered.append((f"{case.method} {case.formatted_path} {str(case.body)[:200]}", answer.status_code))

            try:
                ask()
            except hypothesis.errors.Unsatisfiable:  # nothing about it can be wrong
                continue
    return iter(answered)


class Senders:
    """Bodies of 100 MB, and senders that never come to an end, as long as the block."""

    def __init__(self, port: int) -> None:
        self.port, self.stop, self.answered = port, threading.Event(), Counter[str]()
        self.threads = [threading.Thread(target=self._slow) for _ in range(SLOW)]
        self.threads.append(threading.Thread(target=self._large))

    def __enter__(self) -> "Senders":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def _open(self, length: int) -> socket.socket:
        sender = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        sender.sendall(f"POST {RANK} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        return sender

    def _slow(self) -> None:
        while not self.stop.is_set():
            with self._open(1_000) as sender:
                sender.settimeout(0.05)
                while not self.stop.is_set():
                    try:
                        sender.sendall(b"1")
                        self.answered[sender.recv(4096)[9:12].decode() or "hung up"] += 1
                        break
                    except TimeoutError:
                        continue
                    except OSError:
                        break

    def _large(self) -> None:
        block = os.urandom(1 << 20)
        while not self.stop.is_set():
            with self._open(LARGE) as sender:
                try:
                    for _ in range(LARGE >> 20):
                        sender.sendall(block)
                    self.answered[sender.recv(4096)[9:12].decode()] += 1
                except OSError:  # it was refused, and hung up
                    self.answered["hung up"] += 1
            sleep(0.2)


def strange_bodies(count: int, seed: int = 0) -> dict[str, Any]:
    """So many bodies, half by schemathesis; which statuses they were answered with."""
    warnings.simplefilter("ignore")  # schemathesis on what it does not know
    draw, statuses, failures = random.Random(seed), Counter[int](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        make_agent(n=400).save(Path(folder) / "agent.zip")
        service = Process(Path(folder) / "agent.zip")
        with Senders(service.client.port) as senders:
            try:
                for told, status in by_schema(service.client.port, count // 2, seed):
                    statuses[status] += 1
                    failures += [f"{told}: {status}"] if status >= 500 else []
                while statuses.total() < count:
                    path, body = changed(draw)
                    status, _, answer = service.client.ask("POST", path, body, token=TOKEN)
                    statuses[status] += 1
                    failures += [f"{path} {body[:200]!r}: {status} {answer}"] if status >= 500 else []
            except BROKEN as error:
                failures.append(f"{type(error).__name__}: {error}")
        counted = re.findall(r'wolpertinger_requests_total\{.*status="5', service.client.get("/metrics").decode())
        failures += [f"it counts {len(counted)} kinds of server errors"] if counted else []
        is_alive = service.process.poll() is None and service.client.ask("POST", RANK, GOOD)[0] == 200
        code = service.end()
    failures += [] if is_alive and code in (0, -15) else ["the process ended"]
    server = {str(status): number for status, number in sorted(statuses.items()) if status >= 500}
    return {
        "tries": statuses.total(),
        "answered": sum(number for status, number in statuses.items() if status < 300),
        "refused": sum(number for status, number in statuses.items() if 400 <= status < 500),
        "server_errors": sum(server.values()),
        "slow_or_large": senders.answered.total(),
        "failures": failures[:20],
    }
