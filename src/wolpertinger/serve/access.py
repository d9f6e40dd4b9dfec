"""Who may change anything: who has the token, over a connection that nobody listens to."""

import hmac
import ipaddress
from dataclasses import dataclass

from fastapi import Request

from wolpertinger.serve.refused import RefusedError

MIN_TOKEN = 16  # characters


@dataclass(frozen=True)
class Access:
    """The rule for every route that changes something."""

    token: str | None
    """Without one, nobody may."""
    insecure: bool = False
    """Whether the token may come in the clear from another machine."""

    def __post_init__(self) -> None:
        if self.token is not None and not (len(self.token) >= MIN_TOKEN and self.token.isascii()):
            raise ValueError(f"the token has {len(self.token)} characters: give {MIN_TOKEN} or more, ASCII")

    def require(self, request: Request) -> None:
        """Refuse a request that may not change anything."""
        if self.token is None:
            raise RefusedError(403, "the service was started without a token: nothing can be changed")
        if not (self.insecure or request.url.scheme == "https" or _is_loopback(request)):
            raise RefusedError(403, "the token would cross the network in the clear: use TLS, or --insecure")
        given = request.headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        is_right = hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        if not (is_right and scheme.lower() == "bearer"):
            raise RefusedError(401, "give the token: Authorization: Bearer ...", {"WWW-Authenticate": "Bearer"})


def _is_loopback(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
