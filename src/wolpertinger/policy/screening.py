"""Re-ranking with a fraction of the arithmetic and, all but always, the same choice: `rerank="screened"`.

The critic in 8-bit products, four times the rate of float32 ones on machines with instructions for them (VNNI),
estimates the values of all candidates. Those that can still win, by the estimates and their errors, are then scored by
the critic itself. How often the choice agrees is measured: docs/performance.md.
"""

import math
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from wolpertinger.networks import Critic
from wolpertinger.networks.mlp import MLPNetwork, through
from wolpertinger.policy.scoring import Scores, Values, in_own_precision, score_exactly

FEWEST_EACH = 256  # candidates of a state, and ...
FEWEST_IN_ALL = 4096  # ... of all states: fewer are scored as fast as they are screened
# Of one number 8 bits tell too few candidates apart: of 400, screening missed the best in 5 % of the states.
MIN_DIM = 2
MAX_DIM = 64  # wider vectors cost more to screen than it saves
FIRST = 0.0125  # share of the candidates, those with the largest estimates, that the critic scores in any case
LEAST_FIRST = 8  # of them, to tell the errors by
MARGIN = 5.5  # standard deviations of the estimates' errors by which a candidate must fall short to be out
BLOCK = 3072  # candidates estimated together
MAX_SIGNED = 127  # of a weight, and of an activation, which is not below 0: torch converts to signed 8 bits faster
MAX_UNSIGNED = 255  # of vectors, which are few, and of activations that come out of an 8-bit product
SAMPLE = 32  # of a state's actions, which tell how large its activations are, ...
HEADROOM = 1.15  # ... more or less
SMALLEST_SCALE = 1e-30  # one over it is a float32 too
VNNI_PROBES = ("_is_vnni_supported", "_is_cpu_support_vnni", "_is_avx512_vnni_supported")  # torch's, by its version


class EightBitScreen:
    """A scorer that estimates by 8-bit products first; exact where that would not pay."""

    def __init__(self, critic: Critic) -> None:
        if not all(isinstance(network, MLPNetwork) for network in critic.networks):
            raise ValueError(
                'rerank="screened" is for critic="mlp": two towers have nothing to screen; leave rerank out'
            )
        if not has_fast_products():
            warnings.warn(
                'rerank="screened" needs a CPU with 8-bit products (VNNI), which this machine or this build of torch '
                "lacks: every candidate is scored exactly",
                stacklevel=2,
            )

    def __call__(self, critic: Critic, features: Tensor, vectors: Tensor) -> Scores:
        k, dim = vectors.shape[-2:]
        pays = k >= FEWEST_EACH and k * len(features) >= FEWEST_IN_ALL and MIN_DIM <= dim <= MAX_DIM
        if pays and all(_fits(network.rest) for network in critic.networks):
            return _screen(critic, features, vectors)
        return score_exactly(critic, features, vectors)


def _fits(rest: nn.Sequential) -> bool:
    """Whether these layers have products that this machine does faster in 8 bits."""
    wide = [layer.weight for layer in rest if isinstance(layer, nn.Linear) and layer.out_features > 1]
    are_plain = all(weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in wide)
    return bool(wide) and are_plain and has_fast_products()


@in_own_precision
def _screen(critic: Critic, features: Tensor, vectors: Tensor) -> Scores:
    """Values of the actions whose estimate is among the largest or can still win; -inf for the others."""
    values = Values([network.in_states(features, critic.scale) for network in critic.networks], features)
    estimates = estimate(critic, features, vectors)  # (batch, k)
    is_shared = vectors.dim() == 2
    largest = estimates.topk(max(LEAST_FIRST, int(FIRST * estimates.shape[1])), dim=1).indices
    places = largest.unsqueeze(-1).expand(-1, -1, vectors.shape[-1])
    found = values.of_each(vectors[largest] if is_shared else vectors.gather(1, places))
    scored = torch.full_like(estimates, -torch.inf).scatter_(1, largest, found)
    errors = found - estimates.gather(1, largest)
    deviation = errors.std(dim=1, correction=0)
    deviation = deviation.clamp_min(deviation.median())  # a state's own best may happen to be all alike
    bound = scored.amax(dim=1) - errors.mean(dim=1) - MARGIN * deviation
    state, place = ((estimates >= bound.unsqueeze(1)) & scored.isneginf()).nonzero(as_tuple=True)
    if len(state):
        chosen = vectors[place] if is_shared else vectors[state, place]
        scored[state, place] = values.of_each(chosen.unsqueeze(1), state).squeeze(1)
    return Scores(scored, estimates.mean(dim=1))


@in_own_precision
def estimate(critic: Critic, features: Tensor, vectors: Tensor) -> Tensor:
    """About `evaluate(critic, features, vectors)`, with products in 8 bits."""
    if all(map(QuantisedNetwork.takes, critic.networks)):
        # How far actions lie from the middle of those of their state: weights are rounded too, but not what they make
        # of the middle.
        sample = vectors[..., :: max(1, vectors.shape[-2] // SAMPLE), :]  # ([batch,] sample, dim)
        middle = sample.mean(dim=-2, keepdim=True)
        around = critic.scale.to_inputs(middle), critic.scale.stretch(sample - middle)
        actions = Quantised.of(critic.scale.stretch(vectors - middle))
        networks = [QuantisedNetwork(network, features, *around, actions) for network in critic.networks]
        if all(network.is_usable for network in networks):
            values = Values(networks, features, BLOCK)
            return values.of_each(actions.x) if vectors.dim() == 3 else values.of_shared(actions.x)
    networks = [network.in_states(features, critic.scale, quantise(network.rest)) for network in critic.networks]
    return Values(networks, features)(vectors)


def quantise(rest: nn.Sequential) -> list[Any]:
    """Layers that do about what these do: products of more than one output in 8 bits, all else as it is."""
    layers: list[Any] = []
    for layer in rest:
        last = layers[-1] if layers else None
        if type(layer) is nn.ReLU and isinstance(last, QuantisedLinear):
            last.then_rectify = True
        elif isinstance(layer, nn.Linear) and layer.out_features > 1:
            rectify = type(last) is nn.ReLU  # rounding to whole numbers from 0 on does that as well
            layers[len(layers) - rectify :] = [QuantisedLinear(layer, rectify)]
        else:
            layers.append(layer)
    return layers


class QuantisedNetwork:
    """A network of ReLUs in a batch of states, of actions quantised around a middle: its first layer's product, to
    which a state's part is the bias, gives activations in 8 bits right away.

    `middle` is what the critic reads of the middle, ([batch,] 1, dim), `sample` how far some actions lie from it.
    """

    shared_from = 0

    def __init__(
        self, network: MLPNetwork, features: Tensor, middle: Tensor, sample: Tensor, actions: "Quantised"
    ) -> None:
        weight = network.action.weight
        state = network.state(features) + (middle @ weight.t()).squeeze(-2)  # (batch, width)
        largest = ((sample @ weight.t()).amax(dim=-2) + state).amax(dim=-1)
        self._steps = (largest * (HEADROOM / MAX_UNSIGNED)).tolist()  # of each state's activations
        self._states = state.unbind()
        self._weights = Weights(weight)
        self._next, *self._rest = quantise(network.rest)
        self._actions = actions
        self.is_usable = all(map(_is_usable, self._steps))
        """Whether there are activations to round."""

    @staticmethod
    def takes(network: Any) -> bool:
        """Whether a network is such a one."""
        if not isinstance(network, MLPNetwork) or network.state_factor is not None:
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
        return self._weights.product(replace(self._actions, x=levels), state, "relu", step)

    def _through(self, hidden: list[Tensor], step: float) -> Tensor:
        return through(self._rest, self._next.of_quantised(Quantised(torch.cat(hidden), step)))


class Weights:
    """Weights (outputs, inputs) in 8 bits, with a scale for each output."""

    def __init__(self, weight: Tensor) -> None:
        weight = weight.contiguous()  # the library goes by its memory
        scales = (weight.abs().amax(dim=1) / MAX_SIGNED).clamp_min_(torch.finfo(weight.dtype).tiny)
        rounded = (weight / scales.unsqueeze(1)).round_().to(torch.int8)
        packed = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._arguments = packed, scales, torch.zeros_like(scales, dtype=torch.long)

    def product(self, levels: "Quantised", bias: Tensor, after: str, step: float | None = None) -> Tensor:
        """With a bias and then a "relu" or "none"; in levels of such a step, if one is given."""
        end = (1.0, 0, torch.float32) if step is None else (step, 0, torch.uint8)
        return torch.ops.onednn.qlinear_pointwise(
            levels.x, levels.step, levels.zero, *self._arguments, bias, *end, after, [], ""
        )


class QuantisedLinear:
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
        step, zero = _scale_and_zero(least, most, MAX_SIGNED)
        if not _is_usable(step):  # all 0, or no numbers
            product = self._layer(x.relu_() if self._rectify else x)
            return product.relu_() if self.then_rectify else product
        rounded = _to_levels(x, step, zero).clamp_(0, MAX_SIGNED).to(torch.int8).view(torch.uint8)
        return self.of_quantised(Quantised(rounded.flatten(0, -2), step, zero)).view(*x.shape[:-1], -1)

    def of_quantised(self, levels: "Quantised") -> Tensor:
        """The same of activations (n, width) in levels."""
        return self._weights.product(levels, self._layer.bias, "relu" if self.then_rectify else "none")


@dataclass(frozen=True)
class Quantised:
    """Numbers in 8 bits without a sign: x stands for (x - zero) * step."""

    x: Tensor
    step: float
    zero: int = 0

    @classmethod
    def of(cls, x: Tensor) -> "Quantised":
        """All 256 of them; x is overwritten."""
        least, most = (bound.item() for bound in x.aminmax())
        step, zero = _scale_and_zero(least, most, MAX_UNSIGNED)
        if not _is_usable(step):  # all the same
            return cls(torch.zeros_like(x, dtype=torch.uint8), 1.0)
        return cls(_to_levels(x, step, zero).clamp_(0, MAX_UNSIGNED).to(torch.uint8), step, zero)


def _scale_and_zero(least: float, most: float, levels: int) -> tuple[float, int]:
    """Return (scale, zero_point)."""
    least, most = min(least, 0.0), max(most, 0.0)
    step = (most - least) / levels
    return step, round(-least / step) if _is_usable(step) else 0


def _is_usable(step: float) -> bool:
    return SMALLEST_SCALE < step < math.inf


def _to_levels(x: Tensor, step: float, zero: int) -> Tensor:
    """What is to be cut off to get levels, in place and in one pass."""
    return torch.add(x.new_tensor(zero + 0.5), x, alpha=1 / step, out=x)


@cache
def has_fast_products() -> bool:
    """Whether this machine has instructions for 8-bit products, and this torch gets them right."""
    has_them = any(getattr(torch.cpu, name)() for name in VNNI_PROBES if hasattr(torch.cpu, name))
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
            found = [QuantisedLinear(layer)(x.clone()), QuantisedLinear(layer, rectify=True)(x.clone())]
            expected = [layer(x), layer(x.relu())]
            step = expected[0].max().item() / MAX_UNSIGNED
            found.append(Weights(layer.weight).product(Quantised.of(x.clone()), layer.bias, "relu", step) * step)
            expected.append(expected[0].relu())
        return all(_agree(*pair) for pair in zip(found, expected, strict=True))
    except Exception:  # a build without oneDNN, or one that calls it otherwise
        return False


def _agree(found: Tensor, expected: Tensor) -> bool:
    return bool((found - expected).abs().max() < 0.02 * expected.abs().max())
