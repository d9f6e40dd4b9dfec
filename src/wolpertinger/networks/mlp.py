"""The paper's critic: one MLP over state and action."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from wolpertinger.networks.layers import Shape, last_layer
from wolpertinger.networks.scaling import VectorScale
from wolpertinger.settings import Settings, check_flag

PER_STATE_PRODUCTS = 128  # candidates per state from which on a product for each state costs less than one for all
FEW_CANDIDATES = 16  # per state: up to so many, a slope for each state costs more than it saves


@dataclass(frozen=True)
class MLP(Settings):
    """An MLP critic: k candidates cost k passes through all but its first layer."""

    kind: ClassVar[str] = "mlp"
    needs_fixed_features: ClassVar[bool] = False
    has_keys: ClassVar[bool] = False
    interaction: bool = False
    """Products of a projection of the state and one of the action in the first layer."""

    def __post_init__(self) -> None:
        check_flag("interaction", self.interaction)

    def __call__(self, shape: Shape) -> "MLPNetwork":
        return MLPNetwork(shape, interaction=self.interaction)


class MLPNetwork(nn.Module):
    """Q(s, a) with its first layer split, so that many actions of one state share the state's part."""

    has_keys = False

    def __init__(self, shape: Shape, interaction: bool) -> None:
        super().__init__()
        width = shape.net_arch[0]
        self.state = nn.Linear(shape.features_dim, width)
        self.action = nn.Linear(shape.dim, width, bias=False)
        self.state_factor = nn.Linear(shape.features_dim, width) if interaction else None
        self.action_factor = nn.Linear(shape.dim, width) if interaction else None
        self.rest = nn.Sequential(
            *shape.hidden(),
            last_layer(shape.net_arch[-1], 1),
        )

    def forward(self, features: Tensor, inputs: Tensor) -> Tensor:
        """Values of one action per state (batch, dim), or of k (batch, k, dim): (batch,) or (batch, k)."""
        features = features.unsqueeze(1) if inputs.dim() == 3 else features  # broadcasts over the k candidates
        hidden = self.state(features) + self.action(inputs)
        if self.state_factor is not None and self.action_factor is not None:
            hidden = hidden + self.state_factor(features) * self.action_factor(inputs)
        return self.rest(hidden).squeeze(-1)

    def in_states(self, features: Tensor, scale: VectorScale, layers: Iterable[Any] | None = None) -> "MLPValues":
        """The network in a batch of states, for many actions each; `layers` may stand in for those after the first."""
        return MLPValues(self, features, scale, self.rest if layers is None else layers)

    def affine(self, state: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
        """The first layer in each state, as offset + slope . action: (batch, width) and (batch, width, dim)."""
        assert self.action_factor is not None
        return state + factor * self.action_factor.bias, torch.addcmul(
            self.action.weight, factor.unsqueeze(-1), self.action_factor.weight
        )


class MLPValues:
    """An MLP critic in a batch of states, of which it holds the state's part of the first layer. No gradients."""

    shared_from = 512  # actions that all states share, from which on a turn for each state costs less than a copy

    def __init__(self, network: MLPNetwork, features: Tensor, scale: VectorScale, rest: Iterable[Any]) -> None:
        self.network, self.scale, self.rest = network, scale, rest
        self.weight = network.action.weight.t().contiguous()  # a quarter off the time of the first layer
        self.state = network.state(features)  # (batch, width)
        self.factor = None if network.state_factor is None else network.state_factor(features)

    def __call__(self, states: slice | Tensor, vectors: Tensor) -> Tensor:
        """Values (n, m) of actions (n, m, dim) in these n states."""
        inputs = self.scale.to_inputs(vectors)
        factor = None if self.factor is None else self.factor[states]
        return through(self.rest, self._first_layer(self.state[states], factor, inputs))

    def _first_layer(self, state: Tensor, factor: Tensor | None, inputs: Tensor) -> Tensor:
        """As in `MLPNetwork.forward`, (n, m, width) for inputs (n, m, dim)."""
        if factor is not None and inputs.shape[1] > FEW_CANDIDATES:
            offset, slope = self.network.affine(state, factor)
            return torch.baddbmm(offset.unsqueeze(1), inputs, slope.transpose(1, 2))  # one product instead of two
        is_many = inputs.shape[1] >= PER_STATE_PRODUCTS and inputs.device.type == "cpu"
        if factor is None and (is_many or len(inputs) == 1):
            hidden = inputs.new_empty(*inputs.shape[:2], self.weight.shape[1])
            for own, offset, vectors in zip(hidden, state, inputs, strict=True):
                torch.addmm(offset, vectors, self.weight, out=own)  # one pass less
            return hidden
        if factor is None and inputs.shape[1] == 1:
            return torch.addmm(state, inputs[:, 0], self.weight).unsqueeze(1)
        hidden = (inputs @ self.weight).add_(state.unsqueeze(1))
        if factor is not None and self.network.action_factor is not None:
            hidden.addcmul_(factor.unsqueeze(1), self.network.action_factor(inputs))
        return hidden

    def of_shared(self, vectors: Tensor) -> Tensor:
        """Values (batch, m) of the same actions (m, dim) in every state."""
        inputs = self.scale.to_inputs(vectors)
        action = self.network.action(inputs)  # what actions put into the first layer, whatever the state
        action_factor = None if self.network.action_factor is None else self.network.action_factor(inputs)
        found = vectors.new_empty(len(self.state), len(vectors))
        for row, state in enumerate(self.state):
            hidden = action + state
            if self.factor is not None and action_factor is not None:
                hidden.addcmul_(action_factor, self.factor[row])
            found[row] = through(self.rest, hidden)
        return found


def through(layers: Iterable[Any], hidden: Tensor) -> Tensor:
    """The layers' only output, (...) for (..., width); `hidden` is overwritten."""
    for layer in layers:
        hidden = hidden.relu_() if type(layer) is nn.ReLU else layer(hidden)
    return hidden.squeeze(-1)
