"""Questions that find the queue full are refused before anything is read of them."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from wolpertinger.serve.batcher import Batcher
from wolpertinger.serve.metrics import Metrics
from wolpertinger.serve.refused import RefusedError
from wolpertinger.serve.service import json_response

ROUTES = {
    "/v1/rank": re.compile("/v1/rank"),
    "/v1/explain": re.compile("/v1/explain"),
    "/v2/models/{name}/infer": re.compile("/v2/models/[^/]+(/versions/[^/]+)?/infer"),
}


class Gate:
    """Middleware: in an overload refusals must cost next to nothing, or they take the interpreter from the policy."""

    def __init__(self, app: Callable[..., Awaitable[None]], batcher: Batcher, metrics: Metrics) -> None:
        self.app, self.batcher, self.metrics = app, batcher, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            try:
                self.batcher.require_room()
            except RefusedError as error:
                route = next((name for name, form in ROUTES.items() if form.fullmatch(scope["path"])), None)
                if route is not None:
                    self.metrics.requests.labels(route, str(error.status)).inc()
                    response = json_response({"error": str(error)}, error.status)
                    response.headers.update(error.headers)
                    await response(scope, receive, send)
                    return
        await self.app(scope, receive, send)
