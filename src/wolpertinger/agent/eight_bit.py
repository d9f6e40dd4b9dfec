"""Layers in 8-bit products: four times the rate of float32 ones on machines with instructions for them (VNNI)."""

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from wolpertinger.agent.rerank import Packed, pack

# Of a weight in 8 bits, and of an activation, which is not below 0: torch turns floats into 8 bits with a sign in a
# seventh of the time that it takes without (64 x 656 x 400 of them: 1.2 against 8.9 ms, one thread).
LARGEST = 127
SMALLEST = 1e-30  # step from one level to the next: one over it is a float32 too
NAMES = ("_is_vnni_supported", "_is_cpu_support_vnni", "_is_avx512_vnni_supported")  # torch's, by its version


def in_eight_bits(rest: nn.Sequential) -> list[Any]:
    """Layers that do about what these do: products of more than one output in 8 bits, all else as it is."""
    layers: list[Any] = []
    for layer in pack(rest):
        last = layers[-1] if layers else None
        if type(layer) is nn.ReLU and isinstance(last, EightBitLinear):
            last.then_rectify = True
        elif isinstance(layer, Packed) and layer.outputs > 1:
            rectify = type(last) is nn.ReLU  # rounding to whole numbers from 0 on does that as well
            layers[len(layers) - rectify :] = [EightBitLinear(layer, rectify)]
        else:
            layers.append(layer)
    return layers


def can_use(rest: nn.Sequential) -> bool:
    """Whether these layers have products that this machine does faster in 8 bits."""
    wide = [layer.weight for layer in rest if isinstance(layer, nn.Linear) and layer.out_features > 1]
    are_plain = all(weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in wide)
    return bool(wide) and are_plain and is_fast()


class EightBitLinear:
    """A linear layer by weights in 8 bits, with a scale for each output, of activations in 7, with one for all.

    :param rectify: put 0 for what is below it first.
    """

    def __init__(self, layer: Packed, rectify: bool = False) -> None:
        weight = layer.weight.t().contiguous()  # the library goes by its memory
        scales = (weight.abs().amax(dim=1) / LARGEST).clamp_min_(torch.finfo(weight.dtype).tiny)
        rounded = (weight / scales.unsqueeze(1)).round_().to(torch.int8)
        self._layer, self._rectify = layer, rectify
        self._weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._scales, self._zeros = scales, torch.zeros_like(scales, dtype=torch.long)
        self.then_rectify = False
        """Whether to put 0 for results below it."""

    def __call__(self, x: Tensor) -> Tensor:
        """About `layer(x)`; x (..., width) is overwritten."""
        least, most = (0.0, x.max().item()) if self._rectify else (bound.item() for bound in x.aminmax())
        least, most = min(least, 0.0), max(most, 0.0)
        scale = (most - least) / LARGEST
        if not SMALLEST < scale < math.inf:  # all 0, or no numbers
            product = self._layer(x.relu_() if self._rectify else x)
            return product.relu_() if self.then_rectify else product
        zero = round(-least / scale)
        torch.add(x.new_tensor(zero + 0.5), x, alpha=1 / scale, out=x)  # in one pass
        rounded = x.clamp_(0, LARGEST).to(torch.int8).view(torch.uint8).flatten(0, -2)
        after = "relu" if self.then_rectify else "none"
        product = _product(rounded, scale, zero, self._weight, self._scales, self._zeros, self._layer.bias, after)
        return product.view(*x.shape[:-1], -1)


def _product(
    x: Tensor, scale: float, zero: int, weight: Tensor, scales: Tensor, zeros: Tensor, bias: Tensor, after: str
) -> Tensor:
    return torch.ops.onednn.qlinear_pointwise(
        x, scale, zero, weight, scales, zeros, bias, 1.0, 0, torch.float32, after, [], ""
    )


@cache
def is_fast() -> bool:
    """Whether this machine has instructions for 8-bit products, and this torch gets them right."""
    has_them = any(getattr(torch.cpu, name)() for name in NAMES if hasattr(torch.cpu, name))
    if not has_them:
        return False
    layer = nn.utils.skip_init(  # type: ignore[no-untyped-call] # draws no random numbers
        nn.Linear, 64, 16, device="cpu", dtype=torch.float32
    )
    try:
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(torch.arange(parameter.numel()).sub(parameter.numel() // 3).view_as(parameter))
            x = torch.arange(256.0, dtype=torch.float32, device="cpu").sub(100).view(4, 64)
            packed = Packed(layer, 64, 16)
            found = [EightBitLinear(packed)(x.clone()), EightBitLinear(packed, rectify=True)(x.clone())]
            expected = [layer(x), layer(x.relu())]
        return all(_agree(*pair) for pair in zip(found, expected, strict=True))
    except Exception:  # a build without oneDNN, or one that calls it otherwise
        return False


def _agree(found: Tensor, expected: Tensor) -> bool:
    return bool((found - expected).abs().max() < 0.02 * expected.abs().max())
