"""Learned rows for vectors that come again and again, found by a hash of their numbers."""

import torch
from torch import Tensor, nn

from wolpertinger.settings import check_memory, show

STEP = 2**-10  # vectors that differ by less in every number, where numbers are about 1, may share a row
PRIME = 2**31 - 1
SCALE = 2.0  # of a row: by how much more than the learning rate an update may move its output
MAX_ROWS = 2**26
HASH = ("factors", "mixer")  # buffers that never change
DISTANCES_AT_ONCE = 2**22
BYTES = 20  # of a number with its gradient, its two moments and its target


class HashedEmbedding(nn.Module):
    """An embedding table for items, and for states that are items, by the hashing trick of recommenders.

    A network learns what neighbours share, and slowly what tells them apart; a row per vector learns the latter at
    once. A new vector has a row too, all zeros until it is learned. Two vectors may share one: give rows to spare.

    Outside of training, a vector that nothing was learned of takes the mean of the rows of its nearest `neighbours`,
    and its last output is larger by `optimism`, over 1 + the samples that were learned from.
    """

    factors: Tensor
    mixer: Tensor
    tries: Tensor
    vectors: Tensor

    def __init__(
        self,
        inputs: int,
        rows: int,
        outputs: int,
        scale: float = SCALE,
        *,
        neighbours: int = 0,
        optimism: float = 0.0,
    ) -> None:
        super().__init__()
        self.scale, self.neighbours, self.optimism = scale, neighbours, optimism
        check_memory(f"an embedding of {rows:,} rows of {outputs:,} numbers", BYTES * rows * outputs)
        self.rows = nn.Parameter(torch.zeros(rows, outputs))
        self.register_buffer("factors", torch.randint(1, PRIME, (inputs,)))
        self.register_buffer("mixer", torch.randint(1, PRIME, (2,)))
        if neighbours or optimism:
            self.register_buffer("tries", torch.zeros(rows, dtype=torch.long))
        if neighbours:
            self.register_buffer("vectors", torch.zeros(rows, inputs))

    def row(self, vectors: Tensor) -> Tensor:
        """The row of each vector (..., inputs): (...)."""
        # Universal hashing: products of numbers below 2**31 stay within 64 bits.
        numbers = (vectors.detach() / STEP).round().long() % PRIME
        mixed = (numbers * self.factors % PRIME).sum(dim=-1) % PRIME
        return (mixed * self.mixer[0] + self.mixer[1]) % PRIME % len(self.rows)

    def forward(self, vectors: Tensor) -> Tensor:
        row = self.row(vectors)
        known = self.scale * nn.functional.embedding(row, self.rows)
        if not (self.neighbours or self.optimism):
            return known
        if self.training:
            if torch.is_grad_enabled():  # else nothing is learned from it
                self._count(row, vectors.detach())
            return known
        if self.neighbours and (new := self.tries[row] == 0).any():
            known[new] = self._mean_of_neighbours(vectors[new])
        if self.optimism:
            known[..., -1] += self.optimism / (1 + self.tries[row])
        return known

    def _count(self, row: Tensor, vectors: Tensor) -> None:
        self.tries += torch.bincount(row.flatten(), minlength=len(self.tries))
        if self.neighbours:
            self.vectors[row] = vectors

    @torch.no_grad()
    def _mean_of_neighbours(self, vectors: Tensor) -> Tensor:
        """Of the rows that were learned, for vectors (n, inputs): (n, outputs)."""
        learned = self.tries.nonzero().squeeze(1)
        if not len(learned):
            return self.rows.new_zeros(len(vectors), self.rows.shape[1])
        places, count = self.vectors[learned], min(self.neighbours, len(learned))
        parts = torch.split(vectors, max(1, DISTANCES_AT_ONCE // len(learned)))
        near = torch.cat([torch.cdist(part, places).topk(count, largest=False).indices for part in parts])
        return self.scale * self.rows[learned[near]].mean(dim=1)


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
