"""A batch of states as the policy sees them."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor

from wolpertinger.actions import Allowed


@dataclass(frozen=True)
class States:
    """What is known of a batch of states when the policy ranks actions in them."""

    obs: PyTorchObs
    """Observations (batch, ...), or a dict of them."""
    proto: Tensor | None = None
    """The actor's proto-actions (batch, dim), noise already on them; None where candidates need no actor."""
    allowed: Allowed | None = None
    """What may be done in each state; None: all of A."""

    def __len__(self) -> int:
        return len(next(iter(self.obs.values())) if isinstance(self.obs, dict) else self.obs)

    @property
    def device(self) -> torch.device:
        """Where the observations are."""
        return (next(iter(self.obs.values())) if isinstance(self.obs, dict) else self.obs).device

    def rows(self, chosen: slice | Tensor) -> "States":
        """Some of the states."""
        proto = None if self.proto is None else self.proto[chosen]
        if self.allowed is None:
            return States(select_rows(self.obs, chosen), proto)
        numbers = chosen if isinstance(chosen, slice) else chosen.numpy(force=True)
        return States(select_rows(self.obs, chosen), proto, self.allowed.rows(numbers))

    def split(self, size: int) -> Iterator["States"]:
        """The states in parts of at most `size`; the states themselves if they are no more."""
        if len(self) <= size:
            return iter([self])
        return (self.rows(slice(start, start + size)) for start in range(0, len(self), size))


def select_rows(obs: PyTorchObs, chosen: slice | Tensor) -> PyTorchObs:
    """Some rows of a batch of observations."""
    return {name: part[chosen] for name, part in obs.items()} if isinstance(obs, dict) else obs[chosen]
