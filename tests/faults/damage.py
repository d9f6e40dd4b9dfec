"""Bytes that are flipped, and files that end early: noticed, or what is read is what was saved."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults import children
from tests.faults.samples import SAMPLES, copy_of, fingerprint, sample_folder

NAME = "tests.faults.damage"


def flips(tries: int, seed: int = 0) -> dict[str, Any]:
    """One to three bits at random places of a random file."""
    return _attack(tries, seed, 0)


def cuts(tries: int, seed: int = 0) -> dict[str, Any]:
    """A random file cut at a random place."""
    return _attack(tries, seed, 1)


def _attack(tries: int, seed: int, way: int) -> dict[str, Any]:
    return children.summarise(children.run(NAME, sample_folder(), seed, [2 * number + way for number in range(tries)]))


class attempt:  # noqa: N801 - called as a function
    """Damage a copy of a file, even numbers by flips and odd ones by a cut; when called, read it."""

    def __init__(self, folder: Path, seed: int, number: int) -> None:
        rng = random.Random(f"{seed} {number}")
        self.sample = rng.choice(list(SAMPLES))
        self.expected = json.loads((folder / "fingerprints.json").read_text())[self.sample]
        paths = copy_of(folder, self.sample, folder / "damaged")
        self.path, victim = paths[0], rng.choice(paths)
        change: Callable[[bytearray, random.Random], str] = _cut if number % 2 else _flip
        data = bytearray(victim.read_bytes())
        self.name = f"{self.sample}, {victim.name}: {change(data, rng)}"
        victim.write_bytes(data)
        self.size = sum(path.stat().st_size for path in paths)

    def __call__(self) -> tuple[str, str]:
        found = fingerprint(SAMPLES[self.sample].load(self.path))
        return ("same" if found == self.expected else "silent"), self.name


def _flip(data: bytearray, rng: random.Random) -> str:
    places = [rng.randrange(len(data)) for _ in range(rng.randint(1, 3))]
    # Half of them among the zip's own words, at the end.
    if rng.random() < 0.3:
        places = [max(0, len(data) - 1 - rng.randrange(700)) for _ in places]
    for place in places:
        data[place] ^= 1 << rng.randrange(8)
    return f"flips at {places}"


def _cut(data: bytearray, rng: random.Random) -> str:
    length = rng.choice([rng.randrange(len(data)), max(0, len(data) - rng.randint(1, 200))])
    del data[length:]
    return f"cut to {length}"
