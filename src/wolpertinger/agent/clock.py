"""Where the time goes: a stopwatch with names."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Clock:
    """Adds up the seconds spent in named blocks: `with clock("lookup"): ...`."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self.seconds[name] += perf_counter() - start
