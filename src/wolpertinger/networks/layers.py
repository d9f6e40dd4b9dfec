"""Layers that actor and critics are made of."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch.nn.functional as F
from torch import Tensor, nn

LAST_LAYER = 3e-3  # the DDPG paper's bound for the last layer's weights: values start near 0, protos near the middle


@dataclass(frozen=True)
class Shape:
    """What a critic's network is built for, and of which layers."""

    features_dim: int
    dim: int
    """Length of the actions' vectors."""
    n_actions: int
    net_arch: list[int]
    activation_fn: type[nn.Module]
    layer_norm: bool
    learned_features: bool
    """Whether weights that learn lie between the observation and the network."""
    dropout: float = 0.0
    is_numbered: bool = False
    """Whether actions are known by their number only, so that vectors are of no use but to tell them apart."""
    slots: int | None = None
    """Items of a slate, where actions are slates."""
    unit_features: bool = False
    """Whether what the last layer reads is brought to length 1."""
    levels: tuple[npt.NDArray[np.float32], ...] | None = None
    """Of each factor (i, m), as the network reads them, where actions are combinations of levels."""

    def hidden(self) -> list[nn.Module]:
        """The layers that follow the first one."""
        first, *others = self.net_arch
        hidden = hidden_layers(first, others, self.activation_fn, self.layer_norm, self.dropout)
        return [*hidden, *([UnitFeatures()] if self.unit_features else [])]


class UnitFeatures(nn.Module):
    """Brings what the last layer reads to length 1 (penultimate normalisation: Bjorck, Gomes and Weinberger, "Is High
    Variance Unavoidable in RL? A Case Study in Continuous Control", 2022).

    However far away a state or action is, outputs are bounded by the last layer's weights: an actor does not run into
    the flat ends of tanh at once, nor does a critic promise what it has never seen.
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1, eps=1e-6)


def hidden_layers(
    width: int, net_arch: list[int], activation_fn: type[nn.Module], layer_norm: bool, dropout: float = 0.0
) -> list[nn.Module]:
    """The layers that follow a first one of `width` outputs: normalisation, activation and dropout behind each."""
    layers: list[nn.Module] = []
    for place, size in enumerate([width, *net_arch]):
        layers += [nn.Linear(width, size)] if place else []
        layers += [nn.LayerNorm(size)] if layer_norm else []
        layers += [activation_fn(), *([nn.Dropout(dropout)] if dropout else [])]
        width = size
    return layers


def last_layer(width: int, outputs: int) -> nn.Linear:
    """A linear layer whose outputs start near 0."""
    layer = nn.Linear(width, outputs)
    nn.init.uniform_(layer.weight, -LAST_LAYER, LAST_LAYER)
    nn.init.zeros_(layer.bias)
    return layer
