"""The process: a socket, a web server, an end that answers what was accepted."""

import logging
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from wolpertinger.serve.access import Access
from wolpertinger.serve.app import make_app
from wolpertinger.serve.limits import Limits
from wolpertinger.serve.metrics import Metrics
from wolpertinger.serve.repository import Repository
from wolpertinger.serve.service import Service
from wolpertinger.serve.source import NAME, Source

CONNECTIONS = 4_096
GRACE = 30  # seconds that requests have to be answered in, at the end


@dataclass(frozen=True)
class Address:
    """Where to listen."""

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    """Of TLS, with the key."""
    key: Path | None = None


def make_server(
    source: Source, address: Address, access: Access, limits: Limits, *, name: str | None = None, watch: float = 2.0
) -> uvicorn.Server:
    """A server that is ready to run, its policy loaded; `serve` runs it."""
    name = name or source.name
    if not NAME.fullmatch(name):
        raise ValueError(f"name={name!r}: give letters, digits, '-', '_' and '.', 100 at most")
    repository = Repository(source, limits, changeable=access.token is not None)
    app = make_app(Service(name, repository, limits, access, Metrics()), watch=watch)
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        log_level=logging.WARNING,
        access_log=False,
        proxy_headers=False,  # which would let a request say where it comes from
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=GRACE,
    )
    return uvicorn.Server(config)


def serve(server: uvicorn.Server) -> None:
    """Listen, say where, and answer until a signal asks it to end."""
    config = server.config
    socket = config.bind_socket()
    socket.listen(config.backlog)  # who asks from now on is answered, if a moment later
    scheme = "https" if config.ssl_certfile else "http"
    host = f"[{config.host}]" if ":" in config.host else config.host
    print(f"serving at {scheme}://{host}:{socket.getsockname()[1]}", flush=True)
    server.run(sockets=[socket])
