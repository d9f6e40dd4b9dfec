"""Layers in 8-bit products: four times the rate of float32 ones on machines with instructions for them (VNNI)."""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from wolpertinger.agent.networks import Critic, QNetwork
from wolpertinger.agent.rerank import Values, in_full, rank, through

# Of a weight in 8 bits, and of an activation, which is not below 0: torch turns floats into 8 bits with a sign in a
# seventh of the time that it takes without (64 x 656 x 400 of them: 1.2 against 8.9 ms, one thread).
LARGEST = 127
# Candidates in a block: of 64 x 656 on two threads, blocks of 1, 2, 3, 4 and 8 states took 22.7, 21.4, 21.2, 21.0 and
# 23.6 ms.
BLOCK = 3072
ALL_LEVELS = 255  # of vectors, which are few, and of activations that come out of a product in 8 bits
SAMPLE = 32  # of a state's actions, which tell how large its activations are, ...
HEADROOM = 1.15  # ... more or less: the largest of 32 was at least 0.77 times the largest of 656 (recommender)
SMALLEST = 1e-30  # step from one level to the next: one over it is a float32 too
NAMES = ("_is_vnni_supported", "_is_cpu_support_vnni", "_is_avx512_vnni_supported")  # torch's, by its version


def in_eight_bits(rest: nn.Sequential) -> list[Any]:
    """Layers that do about what these do: products of more than one output in 8 bits, all else as it is."""
    layers: list[Any] = []
    for layer in rest:
        last = layers[-1] if layers else None
        if type(layer) is nn.ReLU and isinstance(last, EightBitLinear):
            last.then_rectify = True
        elif isinstance(layer, nn.Linear) and layer.out_features > 1:
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


@in_full
def estimate(critic: Critic, features: Tensor, vectors: Tensor) -> Tensor:
    """About `rank(critic, features, vectors)`, with products in 8 bits."""
    if all(map(Rounded.takes, critic.networks)):
        # How far actions lie from the middle of those of their state: weights are rounded too, but not what they make
        # of the middle.
        sample = vectors[..., :: max(1, vectors.shape[-2] // SAMPLE), :]  # ([batch,] sample, dim)
        middle = sample.mean(dim=-2, keepdim=True)
        around = critic.scale.to_inputs(middle), critic.scale.stretch(sample - middle)
        own = (network for network in critic.networks if isinstance(network, QNetwork))
        networks = [Rounded(network, features, *around) for network in own]
        levels = Levels.of(critic.scale.stretch(vectors - middle))
        if all(network.is_usable for network in networks):
            for network in networks:
                network.levels = levels
            values = Values(networks, features, BLOCK)
            return values(levels.x) if vectors.dim() == 3 else values.of_shared(levels.x)
    return rank(critic, features, vectors, in_eight_bits)


class Rounded:
    """A network of ReLUs in a batch of states, of actions in levels around a middle: its first layer's product, to
    which a state's part is the bias, gives activations in 8 bits right away.

    :param middle: what the critic reads of it, ([batch,] 1, dim); `sample`: how far some actions lie from it.
    """

    levels: "Levels"
    """What all actions come in, to be set before the first call: they are worked out at the same time as this."""

    def __init__(self, network: QNetwork, features: Tensor, middle: Tensor, sample: Tensor) -> None:
        weight = network.action.weight
        state = network.state(features) + (middle @ weight.t()).squeeze(-2)  # (batch, width)
        largest = ((sample @ weight.t()).amax(dim=-2) + state).amax(dim=-1)
        self._steps = (largest * (HEADROOM / ALL_LEVELS)).tolist()  # of each state's activations
        self._states = state.unbind()
        self._weights = Weights(weight)
        self._next, *self._rest = in_eight_bits(network.rest)
        self.is_usable = all(map(_is_usable, self._steps))
        """Whether there are activations to round."""

    @staticmethod
    def takes(network: Any) -> bool:
        """Whether a network is such a one."""
        if not isinstance(network, QNetwork) or network.state_factor is not None:
            return False
        first, second, *_ = network.rest
        return type(first) is nn.ReLU and isinstance(second, nn.Linear) and second.out_features > 1

    def __call__(self, states: slice, levels: Tensor) -> Tensor:
        """Values (n, m) of actions (n, m, dim) in these n states."""
        step = max(self._steps[states])
        parts = zip(levels, self._states[states], strict=True)
        return self._through([self._first_layer(*part, step) for part in parts], step).view(levels.shape[:2])

    def of_shared(self, levels: Tensor) -> Tensor:
        """Values (batch, m) of the same actions (m, dim) in every state."""
        states = zip(self._states, self._steps, strict=True)
        return torch.stack([self._through([self._first_layer(levels, *state)], state[1]) for state in states])

    def _first_layer(self, levels: Tensor, state: Tensor, step: float) -> Tensor:
        return self._weights.product(replace(self.levels, x=levels), state, "relu", step)

    def _through(self, hidden: list[Tensor], step: float) -> Tensor:
        return through(self._rest, self._next.of_levels(Levels(torch.cat(hidden), step)))


class Weights:
    """Weights (outputs, inputs) in 8 bits, with a scale for each output."""

    def __init__(self, weight: Tensor) -> None:
        weight = weight.contiguous()  # the library goes by its memory
        scales = (weight.abs().amax(dim=1) / LARGEST).clamp_min_(torch.finfo(weight.dtype).tiny)
        rounded = (weight / scales.unsqueeze(1)).round_().to(torch.int8)
        packed = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._arguments = packed, scales, torch.zeros_like(scales, dtype=torch.long)

    def product(self, levels: "Levels", bias: Tensor, after: str, step: float | None = None) -> Tensor:
        """With a bias and then a "relu" or "none"; in levels of such a step, if one is given."""
        end = (1.0, 0, torch.float32) if step is None else (step, 0, torch.uint8)
        return torch.ops.onednn.qlinear_pointwise(
            levels.x, levels.step, levels.zero, *self._arguments, bias, *end, after, [], ""
        )


class EightBitLinear:
    """A linear layer by weights in 8 bits, with a scale for each output, of activations in 7, with one for all.

    :param rectify: put 0 for what is below it first.
    """

    def __init__(self, layer: nn.Linear, rectify: bool = False) -> None:
        self._layer, self._rectify, self._weights = layer, rectify, Weights(layer.weight)
        self.then_rectify = False
        """Whether to put 0 for results below it."""

    def __call__(self, x: Tensor) -> Tensor:
        """About `layer(x)`; x (..., width) is overwritten."""
        least, most = (0.0, x.max().item()) if self._rectify else (bound.item() for bound in x.aminmax())
        step, zero = _step(least, most, LARGEST)
        if not _is_usable(step):  # all 0, or no numbers
            product = self._layer(x.relu_() if self._rectify else x)
            return product.relu_() if self.then_rectify else product
        rounded = _scale(x, step, zero).clamp_(0, LARGEST).to(torch.int8).view(torch.uint8)
        return self.of_levels(Levels(rounded.flatten(0, -2), step, zero)).view(*x.shape[:-1], -1)

    def of_levels(self, levels: "Levels") -> Tensor:
        """The same of activations (n, width) in levels."""
        return self._weights.product(levels, self._layer.bias, "relu" if self.then_rectify else "none")


@dataclass(frozen=True)
class Levels:
    """Numbers in 8 bits without a sign: x stands for (x - zero) * step."""

    x: Tensor
    step: float
    zero: int = 0

    @classmethod
    def of(cls, x: Tensor) -> "Levels":
        """All 256 of them; x is overwritten."""
        least, most = (bound.item() for bound in x.aminmax())
        step, zero = _step(least, most, ALL_LEVELS)
        if not _is_usable(step):  # all the same
            return cls(torch.zeros_like(x, dtype=torch.uint8), 1.0)
        return cls(_scale(x, step, zero).clamp_(0, ALL_LEVELS).to(torch.uint8), step, zero)


def _step(least: float, most: float, levels: int) -> tuple[float, int]:
    """From one level to the next, where 0 is one of them, and which."""
    least, most = min(least, 0.0), max(most, 0.0)
    step = (most - least) / levels
    return step, round(-least / step) if _is_usable(step) else 0


def _is_usable(step: float) -> bool:
    return SMALLEST < step < math.inf


def _scale(x: Tensor, step: float, zero: int) -> Tensor:
    """What is to be cut off to get levels, in place and in one pass."""
    return torch.add(x.new_tensor(zero + 0.5), x, alpha=1 / step, out=x)


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
            found = [EightBitLinear(layer)(x.clone()), EightBitLinear(layer, rectify=True)(x.clone())]
            expected = [layer(x), layer(x.relu())]
            step = expected[0].max().item() / ALL_LEVELS
            found.append(Weights(layer.weight).product(Levels.of(x.clone()), layer.bias, "relu", step) * step)
            expected.append(expected[0].relu())
        return all(_agree(*pair) for pair in zip(found, expected, strict=True))
    except Exception:  # a build without oneDNN, or one that calls it otherwise
        return False


def _agree(found: Tensor, expected: Tensor) -> bool:
    return bool((found - expected).abs().max() < 0.02 * expected.abs().max())
