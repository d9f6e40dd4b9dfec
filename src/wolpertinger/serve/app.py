"""All routes together, and how errors are told."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from wolpertinger.serve.gate import Gate
from wolpertinger.serve.interface import make_interface
from wolpertinger.serve.metrics import CountRequests
from wolpertinger.serve.page import make_page
from wolpertinger.serve.protocol import make_protocol
from wolpertinger.serve.refused import RefusedError
from wolpertinger.serve.service import Service, json_response

log = logging.getLogger("wolpertinger.serve")


def make_app(service: Service, *, watch: float = 0.0, on_ready: Callable[[], None] = lambda: None) -> FastAPI:
    """The service as an ASGI application; every `watch` seconds it looks whether the policy's file is another."""
    repository, metrics = service.repository, service.metrics

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        repository.batcher.on_batch = lambda states, waited: metrics.on_batch(repository, states, waited)
        repository.batcher.start()
        watching = asyncio.create_task(_watch(service, watch)) if watch else None
        on_ready()
        yield
        if watching is not None:
            watching.cancel()
        await repository.batcher.stop()
        repository.close()

    # Its pages of documentation would load scripts from elsewhere.
    app = FastAPI(
        title="wolpertinger", version=version("wolpertinger"), lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.add_middleware(CountRequests, metrics=metrics)
    app.add_middleware(Gate, batcher=repository.batcher, metrics=metrics)
    for router in (make_interface(service), make_protocol(service), make_page(service)):
        app.include_router(router)
    _tell_errors(app)
    return app


async def _watch(service: Service, seconds: float) -> None:
    """Load the policy's file whenever another has taken its place."""
    while True:
        await asyncio.sleep(seconds)
        try:
            if service.repository.source.stamp() == service.repository.stamp:
                continue
            served = await service.repository.load()
        except FileNotFoundError:  # between two files
            continue
        except RefusedError as error:
            service.metrics.loads.labels("refused").inc()
            log.warning("%s", error)
        else:
            service.metrics.loads.labels("loaded").inc()
            log.warning("version %d is served", served.version)


def _tell_errors(app: FastAPI) -> None:
    """Every error is {"error": ...}, as the Open Inference Protocol has it."""

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> Response:
        response = json_response({"error": str(error)}, error.status)
        response.headers.update(error.headers)
        return response

    @app.exception_handler(ValueError)
    @app.exception_handler(TypeError)
    async def wrong(_: Request, error: Exception) -> Response:
        return json_response({"error": str(error)}, 400)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return json_response({"error": "; ".join(one["msg"] for one in error.errors())}, 422)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        response = json_response({"error": str(error.detail)}, error.status_code)
        response.headers.update(error.headers or {})
        return response
