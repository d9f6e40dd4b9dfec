"""Layers that actor and critics are made of."""

from dataclasses import dataclass

from torch import nn

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


def hidden_layers(width: int, net_arch: list[int], activation_fn: type[nn.Module], layer_norm: bool) -> list[nn.Module]:
    """The layers that follow a first one of `width` outputs, each normalised (or not) before its activation."""
    layers: list[nn.Module] = [*([nn.LayerNorm(width)] if layer_norm else []), activation_fn()]
    for next_width in net_arch:
        layers += [nn.Linear(width, next_width), *([nn.LayerNorm(next_width)] if layer_norm else []), activation_fn()]
        width = next_width
    return layers


def last_layer(width: int, outputs: int) -> nn.Linear:
    """A linear layer whose outputs start near 0."""
    layer = nn.Linear(width, outputs)
    nn.init.uniform_(layer.weight, -LAST_LAYER, LAST_LAYER)
    nn.init.zeros_(layer.bias)
    return layer
