"""The networks of a policy as safetensors, and back."""

import safetensors.torch
import torch

from wolpertinger import archive

NETWORKS = "networks.safetensors"
COMPILED = "_orig_mod."  # which torch.compile puts into the names of parameters


def write_networks(policy: torch.nn.Module) -> bytes:
    """Every tensor of a policy by name."""
    return write_tensors(policy.state_dict())


def write_tensors(tensors: dict[str, torch.Tensor]) -> bytes:
    """Tensors by the names that they have where nothing was compiled."""
    plain = {name.replace(COMPILED, ""): tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(plain)


def read_tensors(data: bytes) -> dict[str, torch.Tensor]:
    """Tensors by name, all of whose numbers are finite."""
    tensors = safetensors.torch.load(archive.check_header(data))
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(f"{name} holds numbers that are not finite")
    return tensors
