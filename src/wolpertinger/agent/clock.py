"""Where the time goes: a stopwatch with names."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Clock:
    """Adds up the seconds spent in named blocks: `with clock("lookup"): ...`.

    A block inside another one counts for itself only: the seconds of all names add up to the time spent.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inner = 0.0  # seconds of the blocks that ended inside the one that is open

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        outer, self._inner = self._inner, 0.0
        start = perf_counter()
        try:
            yield
        finally:
            elapsed = perf_counter() - start
            self.seconds[name] += elapsed - self._inner
            self._inner = outer + elapsed
