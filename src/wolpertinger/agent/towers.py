"""A critic that factorises, Q(s, a) = phi(s) . psi(a) + v(a) + u(s): the best action is an inner-product search."""

import torch
from torch import Tensor, nn

from wolpertinger.agent.layers import hidden_layers, last_layer

WIDTH = 64  # of phi and psi


class TwoTower(nn.Module):
    """One tower reads the state, the other one the action; psi and v are one vector per action, whatever the state."""

    def __init__(
        self,
        features_dim: int,
        dim: int,
        net_arch: list[int],
        activation_fn: type[nn.Module],
        layer_norm: bool,
        width: int = WIDTH,
    ) -> None:
        super().__init__()

        def tower(inputs: int, last: nn.Linear) -> nn.Sequential:
            hidden = hidden_layers(net_arch[0], net_arch[1:], activation_fn, layer_norm)
            return nn.Sequential(nn.Linear(inputs, net_arch[0]), *hidden, last)

        # Values start near 0 if one of the factors does; if both did, neither would have a gradient.
        self.state_tower = tower(features_dim, nn.Linear(net_arch[-1], width + 1))
        self.action_tower = tower(dim, last_layer(net_arch[-1], width + 1))
        with torch.no_grad():  # u(s) as well
            last = self.state_tower[-1]
            assert isinstance(last, nn.Linear)
            last.weight[-1].zero_()
            last.bias[-1].zero_()

    def forward(self, features: Tensor, inputs: Tensor) -> Tensor:
        """Values of one action per state (batch, dim), or of k (batch, k, dim): (batch,) or (batch, k)."""
        query, offset = self.query(features)
        query, offset = (query.unsqueeze(1), offset.unsqueeze(1)) if inputs.dim() == 3 else (query, offset)
        return (query * self.action_tower(inputs)).sum(dim=-1) + offset

    def query(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(phi(s), 1) and u(s): the first one's product with an action's key, plus the second, is its value."""
        out = self.state_tower(features)
        return torch.cat([out[..., :-1], torch.ones_like(out[..., -1:])], dim=-1), out[..., -1]

    def key(self, inputs: Tensor) -> Tensor:
        """(psi(a), v(a)) of actions (..., dim): (..., width + 1)."""
        return self.action_tower(inputs)
