"""How much a service takes on at once."""

from dataclasses import dataclass

from wolpertinger.settings import check_number


@dataclass(frozen=True)
class Limits:
    """Bounds on requests and on what waits; what is beyond them is refused, and says so."""

    batch: int = 256
    """States that are ranked together at most; a single request may have as many."""
    wait: float = 0.002
    """Seconds that a batch waits at most, for as many requests as the one before it had."""
    queue: int = 1_024
    """States that may wait; with more the answer is 503."""
    deadline: float = 5.0
    """Seconds until a request is answered with 504, unless it gives a shorter time of its own."""
    body: int = 8 << 20
    """Bytes of a request's body."""
    read: float = 10.0
    """Seconds in which a request's body must have arrived."""
    shown: int = 1_000
    """Candidates in an explanation, actions in one change and points of a map, at most."""

    def __post_init__(self) -> None:
        for name in ("batch", "queue", "body", "shown"):
            check_number(name, getattr(self, name), least=1, whole=True)
        check_number("wait", self.wait, least=0)
        for name in ("deadline", "read"):
            check_number(name, getattr(self, name), above=True)
        if self.queue < self.batch:
            raise ValueError(f"queue={self.queue}: give room for one batch at least, {self.batch} states")
