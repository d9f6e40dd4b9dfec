"""Line 16 of Algorithm 2: Polyak updates of the target networks."""

import torch
from torch import Tensor, nn

from wolpertinger.networks.hashed_embedding import HASH, HashedEmbedding
from wolpertinger.networks.scaling import VectorScale


class PolyakUpdate:
    """Moves the parameters of target networks towards those of the learned ones, all pairs in one call.

    One call for all parameters takes a quarter of the time of Stable-Baselines3's `polyak_update`, which walks through
    the modules and makes two operations of each parameter.
    """

    def __init__(self, *pairs: tuple[nn.Module, nn.Module]) -> None:
        # A parameter stays the same object wherever it is moved to and whatever is loaded into it; a buffer does not.
        self._parameters: list[Tensor] = [parameter for network, _ in pairs for parameter in network.parameters()]
        self._targets: list[Tensor] = [parameter for _, target in pairs for parameter in target.parameters()]
        self._statistics = [  # of batch normalisation, and what rows were learned of; scales and hashes stay
            (module, copy, name)
            for network, target in pairs
            for module, copy in zip(network.modules(), target.modules(), strict=True)
            if not isinstance(module, VectorScale)
            for name, _ in module.named_buffers(recurse=False)
            if not (isinstance(module, HashedEmbedding) and name in HASH)
        ]

    @torch.no_grad()
    def step(self, tau: float) -> None:
        """Move every target parameter the share `tau` of the way; running statistics are copied."""
        torch._foreach_lerp_(self._targets, self._parameters, tau)
        for module, copy, name in self._statistics:
            getattr(copy, name).copy_(getattr(module, name))
