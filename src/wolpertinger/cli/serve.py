"""`wolpertinger serve`: a run's agent, or an agent's file, as a service."""

import argparse
import os
from pathlib import Path
from typing import Any

from wolpertinger.cli.options import at_least, file_path, with_example
from wolpertinger.imports import needs_extra

TOKEN = "WOLPERTINGER_TOKEN"
EXAMPLE = """example:
  wolpertinger serve runs/demo
  wolpertinger serve agent.zip --port 9000 --token-file token.txt"""


def add_serve(commands: Any) -> None:
    """Add `serve`."""
    parser = commands.add_parser("serve", help="answer requests by an agent's policy", **with_example(EXAMPLE))
    parser.add_argument("path", metavar="PATH", type=file_path, help="a run folder, or a file of agent.save")
    parser.add_argument("--checkpoint", default="best", choices=("best", "last"), help="of a run (default: best)")
    parser.add_argument("--name", help="what clients call the model (default: by the path)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine only)")
    parser.add_argument("--port", type=at_least(0, 65535), default=8000, help="0: any (default: %(default)s)")
    parser.add_argument("--certificate", type=file_path, help="of TLS, a PEM file")
    parser.add_argument("--key", type=file_path, help="of TLS, a PEM file")
    parser.add_argument(
        "--token-file", type=file_path, help=f"its first line lets clients change actions and policy (or: ${TOKEN})"
    )
    parser.add_argument("--insecure", action="store_true", help="take the token in the clear from other machines")
    parser.add_argument("--batch", type=at_least(1), default=256, help="states at once (default: %(default)s)")
    parser.add_argument("--wait-ms", type=float, default=2.0, help="that a batch waits at most (default: %(default)s)")
    parser.add_argument("--queue", type=at_least(1), default=1024, help="states that may wait (default: %(default)s)")
    parser.add_argument("--deadline-ms", type=float, default=5000.0, help="of a request (default: %(default)s)")
    parser.add_argument(
        "--watch", type=float, default=2.0, help="seconds between looks for a new file, 0: never (default: %(default)s)"
    )
    parser.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> None:
    with needs_extra("serve", "wolpertinger serve"):
        from wolpertinger.serve.access import Access
        from wolpertinger.serve.limits import Limits
        from wolpertinger.serve.server import Address, make_server, serve
        from wolpertinger.serve.source import Source
    if (options.certificate is None) != (options.key is None):
        raise ValueError("--certificate and --key go together: give both, or neither")
    limits = Limits(options.batch, options.wait_ms / 1e3, options.queue, options.deadline_ms / 1e3)
    address = Address(options.host, options.port, options.certificate, options.key)
    access = Access(_read_token(options.token_file), options.insecure)
    source = Source(options.path, options.checkpoint)
    serve(make_server(source, address, access, limits, name=options.name, watch=options.watch))


def _read_token(path: Path | None) -> str | None:
    """Not from the command line, which every user of the machine can read."""
    if path is None:
        return os.environ.get(TOKEN) or None
    lines = path.read_text().split()
    if not lines:
        raise ValueError(f"{path} is empty: give a token in its first line")
    return lines[0]
