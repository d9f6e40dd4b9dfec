"""Two towers with a linear path beside each network ("wide and deep"), and dropout in the networks.

With the linear paths alone the critic is bilinear in state and action, which generalises from few tries; the networks
learn what is left. Dropout with layer normalisation (as in DroQ) keeps them from memorising noise.
"""

import torch
from torch import Tensor, nn

from benchmarks.suite.prototypes.shared import Shared
from wolpertinger import Wolpertinger
from wolpertinger.agent import networks
from wolpertinger.agent.layers import last_layer
from wolpertinger.agent.towers import TwoTower


class WideTower(nn.Module):
    def __init__(self, inputs: int, net_arch: list[int], width: int, layer_norm: bool, dropout: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = inputs
        for size in net_arch:
            layers += [nn.Linear(before, size), *([nn.LayerNorm(size)] if layer_norm else []), nn.ReLU()]
            layers += [nn.Dropout(dropout)] if dropout else []
            before = size
        self.network = nn.Sequential(*layers, last_layer(before, width + 1))
        self.wide = nn.Linear(inputs, width + 1, bias=False)
        with torch.no_grad():
            self.wide.weight[-1].zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.wide(x) + self.network(x)


class WideTwoTower(TwoTower):
    def __init__(
        self,
        features_dim: int,
        dim: int,
        net_arch: list[int],
        activation_fn: type[nn.Module],
        layer_norm: bool,
        n_actions: int,
        width: int = 32,
        dropout: float = 0.2,
        small: float = 0.1,
    ) -> None:
        nn.Module.__init__(self)
        self.state_tower = WideTower(features_dim, net_arch, width, layer_norm, dropout)
        self.action_tower = WideTower(dim, net_arch, width, layer_norm, dropout)
        with torch.no_grad():
            self.action_tower.wide.weight.mul_(small)


class Wide(Wolpertinger):
    def _setup_model(self) -> None:
        networks.TwoTower = WideTwoTower  # type: ignore[misc]  # for this process: also what `Critic.towers` looks for
        super()._setup_model()


class WideShared(Shared, Wide):
    pass
