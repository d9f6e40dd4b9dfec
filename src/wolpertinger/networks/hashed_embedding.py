"""Learned rows for vectors that come again and again, found by a hash of their numbers."""

import torch
from torch import Tensor, nn

from wolpertinger.settings import check_memory, show

STEP = 2**-10  # vectors that differ by less in every number, where numbers are about 1, may share a row
PRIME = 2**31 - 1
SCALE = 2.0  # of a row: by how much more than the learning rate an update may move its output
MAX_ROWS = 2**26
BYTES = 20  # of a number with its gradient, its two moments and its target


class HashedEmbedding(nn.Module):
    """An embedding table for items, and for states that are items, by the hashing trick of recommenders.

    A network learns what neighbours share, and slowly what tells them apart; a row per vector learns the latter at
    once. A new vector has a row too, all zeros until it is learned. Two vectors may share one: give rows to spare.
    """

    factors: Tensor
    mixer: Tensor

    def __init__(self, inputs: int, rows: int, outputs: int, scale: float = SCALE) -> None:
        super().__init__()
        self.scale = scale
        check_memory(f"an embedding of {rows:,} rows of {outputs:,} numbers", BYTES * rows * outputs)
        self.rows = nn.Parameter(torch.zeros(rows, outputs))
        self.register_buffer("factors", torch.randint(1, PRIME, (inputs,)))
        self.register_buffer("mixer", torch.randint(1, PRIME, (2,)))

    def row(self, vectors: Tensor) -> Tensor:
        """The row of each vector (..., inputs): (...)."""
        # Universal hashing: products of numbers below 2**31 stay within 64 bits.
        numbers = (vectors.detach() / STEP).round().long() % PRIME
        mixed = (numbers * self.factors % PRIME).sum(dim=-1) % PRIME
        return (mixed * self.mixer[0] + self.mixer[1]) % PRIME % len(self.rows)

    def forward(self, vectors: Tensor) -> Tensor:
        return self.scale * nn.functional.embedding(self.row(vectors), self.rows)


def count_rows(name: str, rows: int | float, n_actions: int) -> int:
    """Rows as a count (int), or as so many times the number of actions (float)."""
    is_right = not isinstance(rows, bool) and isinstance(rows, int | float) and 0 <= rows < 1e18
    count = (round(rows * n_actions) if isinstance(rows, float) else rows) if is_right else -1
    if not 0 <= count <= MAX_ROWS:
        raise ValueError(
            f"{name}={show(rows)} with {n_actions:,} actions: give rows, a whole number from 0 to {MAX_ROWS:,}, or "
            "with a point how many times as many as there are actions"
        )
    return count
