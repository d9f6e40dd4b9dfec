"""A service in a thread of the test's process, and what asks it."""

import http.client
import json
import threading
import time
from contextlib import contextmanager

import numpy as np

from wolpertinger.serve.access import Access
from wolpertinger.serve.limits import Limits
from wolpertinger.serve.server import Address, make_server
from wolpertinger.serve.source import Source

TOKEN = "a token of the tests, long enough"


class Client:
    """Plain HTTP, without any library of ours."""

    def __init__(self, port):
        self.port = port

    def ask(self, method, path, body=None, headers=None, *, token=None):
        """Status, headers and the body, JSON read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = dict(headers or {}) | ({} if token is None else {"Authorization": f"Bearer {token}"})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        is_json = answer.headers.get("Content-Type") == "application/json"
        return answer.status, dict(answer.headers), json.loads(data) if is_json and data else data

    def get(self, path):
        status, _, told = self.ask("GET", path)
        assert status == 200, told
        return told

    def post(self, path, body, **options):
        status, _, told = self.ask("POST", path, body, **options)
        assert status in (200, 201), told
        return told


@contextmanager
def started(path, *, token=TOKEN, watch=0.0, limits=None, insecure=False, host="127.0.0.1"):
    """A running service and its client."""
    source, access = Source(path), Access(token, insecure)
    server = make_server(source, Address(host, 0), access, limits or Limits(), name="policy", watch=watch)
    socket = server.config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    client = Client(socket.getsockname()[1])
    client.server, client.thread = server, thread
    try:
        yield client
    finally:
        server.should_exit = True
        thread.join(30)
        socket.close()
        assert not thread.is_alive()


def some_states(count, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (count, 3)).astype(np.float32)
