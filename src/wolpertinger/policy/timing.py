"""Where the time goes: seconds by named section."""

from collections import defaultdict
from time import perf_counter
from typing import Self


class SectionTimer:
    """Adds up the seconds spent in named sections: `with timer("lookup"): ...`.

    A section inside another one counts for itself only: the seconds of all names add up to the time spent.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._name = ""  # of the section that comes next
        self._inner = 0.0  # seconds of the sections that ended inside the one that is open
        self._open: list[tuple[str, float, float]] = []

    def __call__(self, name: str) -> Self:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._open.append((self._name, self._inner, perf_counter()))
        self._inner = 0.0

    def __exit__(self, *error: object) -> None:
        name, outer, start = self._open.pop()
        elapsed = perf_counter() - start
        self.seconds[name] += elapsed - self._inner
        self._inner = outer + elapsed
