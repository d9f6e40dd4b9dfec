"""Whether named tensors are of the types and shapes of others, so that nothing is cast or stretched in silence."""

from collections.abc import Mapping

from torch import Tensor


def check_forms(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuse tensors of other names, types or shapes than expected."""
    if strange := sorted(found.keys() ^ expected.keys()):
        raise ValueError(f"{', '.join(strange[:5])}{', ...' if len(strange) > 5 else ''} missing or unknown")
    for name, tensor in expected.items():
        own = found[name]
        if (own.dtype, own.shape) != (tensor.dtype, tensor.shape):
            forms = f"{own.dtype} {tuple(own.shape)}, not {tensor.dtype} {tuple(tensor.shape)}"
            raise ValueError(f"size mismatch for {name}: {forms}")
