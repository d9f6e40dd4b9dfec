"""Whatever is sent, the answer is no 500 and the next request is answered."""

import json
import random
import socket

import pytest

from tests.serve.started import Client, some_states, started
from wolpertinger.serve.limits import Limits

GOOD = {"observation": [0.1, 0.2, 0.3]}
TENSOR = {"name": "observation", "shape": [1, 3], "datatype": "FP32", "data": [0.1, 0.2, 0.3]}
RANK, INFER = "/v1/rank", "/v2/models/policy/infer"


def is_fine(client):
    return client.ask("POST", RANK, GOOD)[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"observation": [NaN, 0, 0]}',
        b'{"observation": [1e999, 0, 0]}',
        b'{"observation": [1e39, 0, 0]}',
        b'{"observation": ' + b"[" * 100_000,
        b'{"observation": ' + b"[" * 900 + b"]" * 900 + b"}",
        {"observation": None},
        {"observation": "0.1"},
        {"observation": ["a", "b", "c"]},
        {"observation": [[0, 0, 0], [0, 0]]},
        {"observation": [0, 0]},
        {"observation": []},
        {"observation": {}},
        {"observation": [{}, {}, {}]},
        {"observation": [10**30, 0, 0], "top": 10**30},
        {**GOOD, "top": 0},
        {**GOOD, "top": 1.5},
        {**GOOD, "top": True},
        {**GOOD, "top": 10**9},
        {**GOOD, "allowed": []},
        {**GOOD, "allowed": [1.5]},
        {**GOOD, "allowed": [-1]},
        {**GOOD, "allowed": [10**6]},
        {**GOOD, "allowed": [2**70]},
        {**GOOD, "allowed": "all"},
        {**GOOD, "allowed": [[1], 2]},
        {**GOOD, "timeout_ms": -1},
        {**GOOD, "timeout_ms": "soon"},
        {**GOOD, "__class__": 1},
        {"observation": [[0.0, 0.0, 0.0]] * 300},
    ],
    ids=lambda body: str(body)[:40],
)
def test_what_is_no_request_is_refused_with_a_reason(client, body):
    for path in (RANK, "/v1/explain", INFER):
        status, _, told = client.ask("POST", path, body)
        assert 400 <= status < 500
        assert told["error"]
    assert is_fine(client)


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": None},
        {"inputs": [1]},
        {"inputs": [TENSOR, TENSOR]},
        {"inputs": [{**TENSOR, "name": "another"}]},
        {"inputs": [{**TENSOR, "datatype": "BYTES"}]},
        {"inputs": [{**TENSOR, "datatype": ["FP32"]}]},
        {"inputs": [{**TENSOR, "shape": [1, 4]}]},
        {"inputs": [{**TENSOR, "shape": [-1, 3]}]},
        {"inputs": [{**TENSOR, "shape": [2**40, 2**40]}]},
        {"inputs": [{**TENSOR, "shape": [True, 3]}]},
        {"inputs": [{**TENSOR, "data": None}]},
        {"inputs": [{**TENSOR, "data": [1, [2], 3]}]},
        {"inputs": [{**TENSOR, "datatype": "INT8", "data": [1, 2, 300]}]},
        {"inputs": [{**TENSOR, "parameters": {"binary_data_size": 12}}]},
        {"inputs": [{**TENSOR, "parameters": {"binary_data_size": -12}}]},
        {"inputs": [{**TENSOR, "parameters": {"binary_data_size": "x"}}]},
        {"inputs": [TENSOR], "outputs": 5},
        {"inputs": [TENSOR], "outputs": [{"name": ["x"]}]},
        {"inputs": [TENSOR], "parameters": [1]},
        {"inputs": [TENSOR], "parameters": {"timeout": "x"}},
    ],
    ids=str,
)
def test_tensors_that_do_not_fit_are_refused(client, change):
    status, _, told = client.ask("POST", INFER, change)
    assert status == 400
    assert told["error"]
    assert is_fine(client)


@pytest.mark.parametrize("length", ["-1", "x", "99999", "1", "²"])
def test_a_wrong_length_of_the_json_is_refused(client, length):
    body = json.dumps({"inputs": [TENSOR]}).encode()
    headers = {"Inference-Header-Content-Length": length.encode("latin-1")}
    assert client.ask("POST", INFER, body, headers)[0] == 400


def test_bodies_that_are_changed_at_random_never_break_it(client):
    draw = random.Random(0)
    pieces = [b"null", b"[[", b"]", b"1e308", b"-0", b'"top"', b"9" * 400, b"{}", b"\x00", b",", b'"', b"true", b"1.5"]
    for path, good in ((RANK, {**GOOD, "top": 3, "allowed": [1, 2]}), (INFER, {"inputs": [TENSOR]})):
        for _ in range(150):
            body = bytearray(json.dumps(good).encode())
            for _ in range(draw.randint(1, 4)):
                at = draw.randrange(len(body))
                body[at : at + draw.randint(0, 6)] = draw.choice(pieces)
            status, _, told = client.ask("POST", path, bytes(body))
            assert status == 200 or 400 <= status < 500, (body, told)
    assert is_fine(client)


@pytest.mark.parametrize(("method", "path"), [("PUT", RANK), ("GET", RANK), ("POST", "/nowhere"), ("TRACE", "/v2")])
def test_other_methods_and_paths_are_refused(client, method, path):
    status, _, told = client.ask(method, path)
    assert status in (404, 405)
    assert told["error"]


def test_a_body_that_is_too_long_is_refused_before_it_is_read(client):
    with socket.create_connection(("127.0.0.1", client.port)) as sender:
        sender.sendall(f"POST {RANK} HTTP/1.1\r\nHost: x\r\nContent-Length: {100 << 20}\r\n\r\n".encode())
        assert b" 413 " in sender.recv(4096)
    assert is_fine(client)


def test_a_body_of_chunks_without_end_is_refused(client):
    chunk = b"10000\r\n" + b"1" * 65536 + b"\r\n"
    with socket.create_connection(("127.0.0.1", client.port)) as sender:
        sender.sendall(f"POST {RANK} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        try:
            for _ in range(400):
                sender.sendall(chunk)
        except OSError:  # it has hung up
            pass
    assert is_fine(client)


def test_a_compressed_body_is_refused(client):
    assert client.ask("POST", RANK, b"x", {"Content-Encoding": "gzip"})[0] == 415


def test_who_sends_slowly_is_told_so_and_keeps_nobody_waiting(agents, tmp_path):
    with started(agents / "first.zip", token=None, limits=Limits(read=0.2)) as client:
        with socket.create_connection(("127.0.0.1", client.port)) as sender:
            sender.sendall(f"POST {RANK} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
            assert is_fine(client)
            assert b" 408 " in sender.recv(4096)
        assert is_fine(client)


def test_a_state_of_many_is_as_good_as_one_alone(client):
    states = some_states(64).tolist()
    together = client.post(RANK, {"observation": states, "top": 3})["ranked"]
    alone = [client.post(RANK, {"observation": state, "top": 3})["ranked"] for state in states]
    assert [[one["action"] for one in row] for row in together] == [[one["action"] for one in row] for row in alone]
    assert isinstance(client, Client)
