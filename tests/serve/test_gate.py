"""A full queue refuses questions before they are routed, and nothing else."""

import asyncio

import pytest

from wolpertinger.serve.batcher import Batcher
from wolpertinger.serve.gate import Gate
from wolpertinger.serve.limits import Limits
from wolpertinger.serve.metrics import Metrics


def sent_for(method, path, *, waiting):
    """What goes out for a request, and whether the application behind was asked."""
    batcher, sent, asked = Batcher(lambda requests: [], Limits(batch=1, queue=1)), [], []
    batcher._states = waiting

    async def app(scope, receive, send):
        asked.append(scope["path"])

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path}
    asyncio.run(Gate(app, batcher, Metrics())(scope, None, send))
    return sent, bool(asked)


@pytest.mark.parametrize("path", ["/v1/rank", "/v1/explain", "/v2/models/a/infer", "/v2/models/a/versions/1/infer"])
def test_questions_are_refused_when_the_queue_is_full(path):
    (start, body), asked = sent_for("POST", path, waiting=1)
    assert not asked
    assert start["status"] == 503
    assert (b"retry-after", b"1") in start["headers"]
    assert b"1 states are waiting already: ask again later" in body["body"]
    assert sent_for("POST", path, waiting=0) == ([], True)


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/rank"), ("POST", "/v1/actions"), ("POST", "/v1/rankings")])
def test_everything_else_passes(method, path):
    assert sent_for(method, path, waiting=1) == ([], True)
