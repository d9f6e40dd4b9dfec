"""What all routes share: the policy, the limits, who may change it, and what is counted."""

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from wolpertinger.serve.access import Access
from wolpertinger.serve.limits import Limits
from wolpertinger.serve.metrics import Metrics
from wolpertinger.serve.refused import RefusedError
from wolpertinger.serve.repository import Repository
from wolpertinger.serve.served import Question, Served
from wolpertinger.serve.served import Request as Asked
from wolpertinger.settings import check_number

CLOSE = {"Connection": "close"}  # what is left of the body is not worth reading


@dataclass(frozen=True)
class Service:
    """One model and its rules."""

    name: str
    repository: Repository
    limits: Limits
    access: Access
    metrics: Metrics

    @property
    def served(self) -> Served:
        """The version that answers now."""
        return self.repository.served

    def require_model(self, name: str, version: str | None = None) -> None:
        """Refuse another model than the one that is here, and versions that are gone."""
        if name != self.name or version not in (None, "", str(self.served.version)):
            raise RefusedError(404, f"there is no such model: there is {self.name}, version {self.served.version}")

    async def read_body(self, request: Request) -> bytes:
        """A request's body, if it is not too long and comes in time."""
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RefusedError(415, "the body is compressed: send it as it is")
        length, body = request.headers.get("content-length", "0"), bytearray()
        too_long = RefusedError(413, f"the body is too long: {self.limits.body:,} bytes at most", CLOSE)
        if length.isdigit() and int(length) > self.limits.body:
            raise too_long
        try:
            async with asyncio.timeout(self.limits.read):
                async for part in request.stream():
                    body += part
                    if len(body) > self.limits.body:
                        raise too_long
        except TimeoutError as error:
            told = f"the body did not arrive within {self.limits.read:g} s"
            raise RefusedError(408, told, CLOSE) from error
        except ClientDisconnect as error:  # nobody reads the answer, but it is counted
            raise RefusedError(400, "the client hung up amid the body", CLOSE) from error
        return bytes(body)

    async def ask(self, served: Served, question: Question, parts: Any, allowed: Any, timeout: float | None) -> Any:
        """The policy's answer, arrays by name."""
        asked = Asked(question, parts, allowed)
        if asked.states > self.limits.batch:
            raise RefusedError(413, f"{asked.states} states at once: {self.limits.batch} at most")
        return await self.repository.batcher.ask(asked, timeout)

    def read_count(self, name: str, count: Any) -> int:
        """How many actions to rank or candidates to explain."""
        agent = self.served.agent
        check_number(name, count, least=1, most=min(agent.actions.n, max(agent.k, self.limits.shown)), whole=True)
        return int(count)


def json_response(value: Any, status: int = 200) -> Response:
    """JSON, quickly; numbers of numpy included, infinities as null."""
    data = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return Response(data, status, media_type="application/json")


def read_timeout(value: Any, unit: float) -> float | None:
    """Seconds of a deadline that a request gives in units of so many seconds."""
    if value is None or value == 0:
        return None
    check_number("timeout", value, above=True)
    return float(value) * unit


def describe_body(required: str, **properties: Any) -> dict[str, Any]:
    """The body of a request, for the OpenAPI document."""
    schema = {"type": "object", "required": [required], "properties": properties}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
