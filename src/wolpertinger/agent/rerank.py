"""The critic's values of many actions per state, near the speed of the matrix products they are made of.

Between two layers nothing larger than a block is kept, and what states or actions have in common is worked out once.
None of it records gradients.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor, nn

from wolpertinger.agent.networks import Critic, QNetwork, VectorScale
from wolpertinger.agent.towers import TwoTower
from wolpertinger.threads import count_threads

# Candidates in a block, which one thread works on. 64 x 656 with 400-300 units on two threads took 67, 62.5, 61, 62 and
# 63 ms in blocks of half a state, 1, 2, 3 and 4; all 41,984 in one piece ran at half of that rate.
BLOCK = 1536
SMALLEST = 1024  # of a thread's own: torch's own division of one state's 656 took 1.2 ms, two threads' 1.4
MANY = 512  # actions that all states share, from which on a state's turn of its own costs less than a repeated part
MANY_EACH = 128  # candidates per state from which on a product for each state costs less than one for all
PACKED = 2048  # candidates of all states from which on it pays to lay out the weights for them
FEW = 16  # candidates per state up to which slopes of the state's own cost more than they save


Layers = Callable[[nn.Sequential], Iterable[Any]]  # what stands for the layers behind the first one


@dataclass(frozen=True)
class Best:
    """What a re-ranking found in each state."""

    place: Tensor
    """Where among the candidates the best one stands (batch,)."""
    value: Tensor
    """Its value (batch,)."""
    mean: Tensor
    """The candidates' mean value (batch,); by screening, of their estimates."""


def in_full(work: Callable[..., Any]) -> Callable[..., Any]:
    """`work(critic, features, vectors, ...)` without gradients and in the critic's own precision: memory of ours, which
    results are written to, knows nothing of `torch.autocast`, nor other threads of `torch.inference_mode`.
    """

    @wraps(work)
    def wrapper(critic: Critic, features: Tensor, vectors: Tensor, *args: Any) -> Any:
        own = critic.scale.middle.dtype
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            torch.autocast(features.device.type, enabled=False),
        ):
            return work(critic, features.to(own), vectors.to(own), *args)

    return wrapper


def exact(critic: Critic, features: Tensor, vectors: Tensor) -> Best:
    """The best of k actions per state (batch, k, dim), or of the same k for all (k, dim), by all their values."""
    values = rank(critic, features, vectors)
    value, place = values.max(dim=1)
    return Best(place, value, values.mean(dim=1))


@in_full
def rank(critic: Critic, features: Tensor, vectors: Tensor, layers: Layers | None = None) -> Tensor:
    """The least of the critics' values of k actions per state (batch, k, dim), or of the same for all (k, dim): (batch,
    k). With `layers`, by what those make of the critics' own.
    """
    is_worth_it = len(features) * vectors.shape[-2] >= PACKED
    values = Values(networks_in(critic, features, layers or (pack if is_worth_it else list)), features)
    if vectors.dim() == 2 and (critic.towers or len(vectors) >= MANY):
        return values.of_shared(vectors)
    return values(vectors.expand(len(features), *vectors.shape[-2:]))


def networks_in(critic: Critic, features: Tensor, layers: Layers = list) -> list[Any]:
    """The critics in a batch of states."""
    return [
        _Towers(network, critic.scale, features)
        if isinstance(network, TwoTower)
        else _Network(network, critic.scale, features, layers(network.rest))
        for network in critic.networks
    ]


class Values:
    """The least of the values of some networks in a batch of states, of any actions."""

    def __init__(self, networks: list[Any], features: Tensor, block: int | None = None) -> None:
        self._networks, self._features, self._most = networks, features, block or BLOCK

    def __call__(self, vectors: Tensor, states: Tensor | None = None) -> Tensor:
        """Values (n, m) of m actions (n, m, dim) in each state, or in each of `states` (n,), by number."""
        found = self._features.new_empty(vectors.shape[:2])
        for rows, columns in blocks(found, self._block(found.numel(), found.numel())):
            chosen = rows if states is None else states[rows]
            found[rows, columns] = _least([each(chosen, vectors[rows, columns]) for each in self._networks])
        return found

    def of_shared(self, vectors: Tensor) -> Tensor:
        """Values (batch, m) of the same m actions (m, dim) in every state."""
        found = self._features.new_empty(len(self._features), len(vectors))
        step = self._block(len(vectors), found.numel())
        for start in range(0, len(vectors), step):
            columns = slice(start, start + step)
            found[:, columns] = _least([each.of_shared(vectors[columns]) for each in self._networks])
        return found

    def _block(self, n: int, candidates: int) -> int:
        """How many of n to take at a time: so few that every thread has as many, if they stand for many candidates."""
        threads = max(1, min(count_threads(), candidates // SMALLEST))
        return math.ceil(n / (threads * math.ceil(n / (threads * self._most)))) if n else 1


class _Network:
    """One of the critics in a batch of states, whose part of the first layer it holds."""

    def __init__(self, network: QNetwork, scale: VectorScale, features: Tensor, rest: Iterable[Any]) -> None:
        self.network, self.scale, self.rest = network, scale, rest
        self.action_factor = network.action_factor
        self.weight = network.action.weight.t().contiguous()  # a quarter off the time of the first layer
        self.state, self.factor = network.state_parts(features)  # (batch, width) each; None without interaction

    def __call__(self, states: slice | Tensor, vectors: Tensor) -> Tensor:
        """Values (n, m) of actions (n, m, dim) in these n states."""
        inputs = self.scale.to_inputs(vectors)
        factor = None if self.factor is None else self.factor[states]
        return through(self.rest, self._first_layer(self.state[states], factor, inputs))

    def _first_layer(self, state: Tensor, factor: Tensor | None, inputs: Tensor) -> Tensor:
        """As in `QNetwork.forward`, (n, m, width) for inputs (n, m, dim)."""
        if factor is not None and inputs.shape[1] > FEW:
            offset, slope = self.network.affine(state, factor)
            return torch.baddbmm(offset.unsqueeze(1), inputs, slope.transpose(1, 2))  # one product instead of two
        is_many = inputs.shape[1] >= MANY_EACH and inputs.device.type == "cpu"
        if factor is None and (is_many or len(inputs) == 1):
            hidden = inputs.new_empty(*inputs.shape[:2], self.weight.shape[1])
            for own, offset, vectors in zip(hidden, state, inputs, strict=True):
                torch.addmm(offset, vectors, self.weight, out=own)  # one pass less
            return hidden
        if factor is None and inputs.shape[1] == 1:
            return torch.addmm(state, inputs[:, 0], self.weight).unsqueeze(1)
        hidden = (inputs @ self.weight).add_(state.unsqueeze(1))
        if factor is not None and self.action_factor is not None:
            hidden.addcmul_(factor.unsqueeze(1), self.action_factor(inputs))
        return hidden

    def of_shared(self, vectors: Tensor) -> Tensor:
        """Values (batch, m) of the same actions (m, dim) in every state."""
        inputs = self.scale.to_inputs(vectors)
        action = self.network.action(inputs)  # what actions put into the first layer, whatever the state
        action_factor = None if self.action_factor is None else self.action_factor(inputs)
        found = vectors.new_empty(len(self.state), len(vectors))
        for row, state in enumerate(self.state):
            hidden = action + state
            if self.factor is not None and action_factor is not None:
                hidden.addcmul_(action_factor, self.factor[row])
            found[row] = through(self.rest, hidden)
        return found


class _Towers:
    """A critic of two towers in a batch of states, whose tower's output it holds."""

    def __init__(self, network: TwoTower, scale: VectorScale, features: Tensor) -> None:
        self.network, self.scale = network, scale
        self.query, self.offset = network.query(features)  # (batch, width), (batch,)

    def __call__(self, states: slice | Tensor, vectors: Tensor) -> Tensor:
        """Values (n, m) of actions (n, m, dim) in these n states."""
        keys = self.network.key(self.scale.to_inputs(vectors))
        return (keys @ self.query[states].unsqueeze(-1)).squeeze(-1) + self.offset[states].unsqueeze(-1)

    def of_shared(self, vectors: Tensor) -> Tensor:
        """Values (batch, m) of the same actions (m, dim) in every state."""
        keys = self.network.key(self.scale.to_inputs(vectors))
        return torch.addmm(self.offset.unsqueeze(-1), self.query, keys.t())


def blocks(values: Tensor, size: int) -> Iterable[tuple[slice, slice]]:
    """Rows and columns of blocks that together cover `values` (batch, k), of at most about `size` entries each.

    If they are many, those of the last rows are half as large, so that no thread has to wait long for the last one.
    """
    batch, k = values.shape
    bulk = batch - batch // 8 if batch * k > 8 * size else batch
    for rows, most in ((range(bulk), size), (range(bulk, batch), size // 2)):
        step = max(1, most // k)
        for part in (rows[start : start + step] for start in range(0, len(rows), step)):
            for candidate in range(0, k, size):
                yield slice(part.start, part.stop), slice(candidate, candidate + size)


def pack(rest: nn.Sequential) -> list[Any]:
    """The layers, with their weights laid out for products with many rows."""
    return [
        Packed(layer.weight, layer.bias) if isinstance(layer, nn.Linear) and Packed.takes(layer) else layer
        for layer in rest
    ]


class Packed:
    """A linear layer by a product of oneDNN's, which has the weights in an order of its own.

    64 x 656 candidates of 400-300 units take 0.96 of the time of torch's own products (two threads of a machine with
    AVX-512). A ReLU in the same product is no faster, and makes zeros of what is no number.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight, self._bias = torch.ops.mkldnn._reorder_linear_weight(weight, BLOCK), bias

    @staticmethod
    def takes(layer: nn.Linear) -> bool:
        """Whether there is such a product for a layer, and it pays."""
        is_plain = layer.weight.dtype == torch.float32 and layer.weight.device.type == "cpu"
        return is_plain and layer.out_features > 1 and _has_onednn()

    def __call__(self, x: Tensor) -> Tensor:
        product = torch.ops.mkldnn._linear_pointwise(x.flatten(0, -2), self._weight, self._bias, "none", [], "")
        return product.view(*x.shape[:-1], -1)


@cache
def _has_onednn() -> bool:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    try:  # what torch calls otherwise, in some version, is left to its own layers
        weight = torch.tensor([[-3, -2, -1], [0, 1, 2]], dtype=torch.float32, device="cpu")
        x, bias = weight + 1, weight[:, 1].contiguous()
        return torch.equal(Packed(weight, bias)(x), nn.functional.linear(x, weight, bias))
    except (AttributeError, RuntimeError, TypeError):
        return False


def through(layers: Iterable[Any], hidden: Tensor) -> Tensor:
    """The layers' only output, (...) for (..., width); `hidden` is overwritten."""
    for layer in layers:
        hidden = hidden.relu_() if type(layer) is nn.ReLU else layer(hidden)
    return hidden.squeeze(-1)


def _least(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).amin(dim=0)
