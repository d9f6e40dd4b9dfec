"""Archives by a malicious writer: every checksum fits, and what they say is wrong, huge or strange.

Each is refused with a CheckpointError; or what it says is possible, and then the agent or table acts and learns on.
"""

import random
from pathlib import Path
from typing import Any

from tests.faults import children
from tests.faults.crafts import all_crafts
from tests.faults.samples import SAMPLES, copy_of, sample_folder

NAME = "tests.faults.crafted"


def crafted(tries: int, seed: int = 0) -> dict[str, Any]:
    """So many of the crafts, in an order by the seed; more than there are come again with other random numbers."""
    return children.summarise(children.run(NAME, sample_folder(), seed, list(range(tries))))


class attempt:  # noqa: N801 - called as a function
    """Write a craft; when called, read it, and when it was read, `use` it."""

    def __init__(self, folder: Path, seed: int, number: int) -> None:
        crafts = all_crafts()
        order = random.Random(seed).sample(range(len(crafts)), len(crafts))
        self.craft = crafts[order[number % len(crafts)]]
        self.sample, self.name = SAMPLES[self.craft.sample], f"{self.craft.sample}, {self.craft.name}"
        paths = copy_of(folder, self.craft.sample, folder / "crafted")
        self.path = paths[0]
        self.craft.apply(self.path, self.sample.kind, random.Random(f"{seed} {number}"))
        self.size = sum(path.stat().st_size for path in self.path.parent.iterdir())
        self.found: Any = None

    def __call__(self) -> tuple[str, str]:
        self.found = self.sample.load(self.path)
        return "works", self.name

    def use(self) -> tuple[str, str]:
        self.sample.use(self.found)
        is_wrong = self.craft.must_be_refused or getattr(self.found, "tensorboard_log", None) is not None
        return ("silent" if is_wrong else "works"), self.name
