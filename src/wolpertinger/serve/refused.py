"""Requests that are not answered, and why."""

from collections.abc import Mapping


class RefusedError(Exception):
    """An answer other than 200: its HTTP status, what it says, its headers."""

    def __init__(self, status: int, told: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(told)
        self.status, self.headers = status, dict(headers or {})
