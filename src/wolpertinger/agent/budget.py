"""A limit to what networks may take that are built by the word of a file."""

from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

SPARE = 2**22  # numbers that are no network's
COPIES = 8  # of the networks: sources of candidates hold some


class Budget(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses new tensors beyond those that a file with so many numbers can fill, before they are made."""

    def __init__(self, numbers: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = COPIES * numbers + SPARE
        self._numbers = numbers

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        if not tensors:
            self._spend(max((_count(arg) for arg in args if isinstance(arg, list | tuple)), default=0))
        elif func.overloadpacket is torch.ops.aten.clone:
            self._spend(tensors[0].numel())
        return func(*args, **(kwargs or {}))

    def _spend(self, numbers: int) -> None:
        self._left -= numbers
        if self._left < 0:
            raise ValueError(f"the networks would be larger than what is in the file, {self._numbers:,} numbers")


def _count(sizes: Any) -> int:
    """Numbers in a tensor of these sizes, or put together from these tensors."""
    if any(isinstance(part, torch.Tensor) for part in sizes):
        return sum(part.numel() for part in sizes if isinstance(part, torch.Tensor))
    return prod(sizes)
