"""How much time the parts of benchmarks.speed spend on measuring."""

from dataclasses import dataclass

from wolpertinger.index.tune import RECALLS


@dataclass(frozen=True)
class Effort:
    """How much time to spend on measuring."""

    rounds: int = 9
    round_seconds: float = 0.4
    """Of one contender in one round."""
    row_seconds: float = 40.0
    """Of all rounds of a row: where steps are slow there are fewer rounds, but at least two."""
    build_seconds: float = 20.0
    """For the indexes of a table of vectors."""
    most_seconds: float = float("inf")
    """Cells whose steps take longer, by their arithmetic, are left out."""
    trained_steps: int = 1_000
    """Of the critic that the paper's networks share."""
    recalls: tuple[str, ...] = tuple(RECALLS)
    """Whose indexes are tuned, which takes most of the time of the smaller cells."""


QUICK = Effort(
    rounds=2,
    round_seconds=0.05,
    row_seconds=5,
    build_seconds=3,
    most_seconds=0.3,
    trained_steps=20,
    recalls=("fast",),
)
