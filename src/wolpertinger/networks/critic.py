"""The critic: one network of values, or several whose least counts."""

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

from wolpertinger.actions import ActionSet
from wolpertinger.networks.factored import Factored
from wolpertinger.networks.layers import Shape, hidden_layers
from wolpertinger.networks.mlp import MLP
from wolpertinger.networks.per_item import PerItem
from wolpertinger.networks.scaling import ScaledModel, Standardize
from wolpertinger.networks.two_tower import TwoTower
from wolpertinger.settings import Settings, check_number, read_settings

MAX_CRITICS, MAX_DROPOUT = 100, 0.99
CRITICS: dict[str, type[Settings]] = {"mlp": MLP, "two-tower": TwoTower, "per-item": PerItem, "factored": Factored}
"""The forms of a critic, by their short names."""


def make_critic_settings(critic: Any) -> MLP | TwoTower | PerItem | Factored:
    """The form of the critic from `critic="mlp"`, `critic=TwoTower(...)` or its JSON."""
    settings = read_settings("critic", critic, CRITICS)
    if not isinstance(settings, MLP | TwoTower | PerItem | Factored):
        raise TypeError(
            f"critic={critic!r}: give MLP(...), TwoTower(...), for slates PerItem(...), or for levels Factored(...)"
        )
    return settings


class Critic(ScaledModel):
    """Q, or several of them: their least is the value of an action (twin critics, as in TD3).

    Layers of `state_arch` read the state before it meets any action: whatever their size, k candidates cost no more.
    """

    optimizer: torch.optim.Optimizer

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        actions: ActionSet,
        net_arch: list[int],
        features_extractor: BaseFeaturesExtractor,
        activation_fn: type[nn.Module] = nn.ReLU,
        layer_norm: bool = False,
        unit_features: bool = False,
        n_critics: int = 1,
        state_arch: list[int] | None = None,
        dropout: float = 0.0,
        form: MLP | TwoTower | PerItem | Factored | None = None,
        normalize_images: bool = True,
    ) -> None:
        super().__init__(observation_space, action_space, actions, features_extractor, normalize_images)
        check_number("n_critics", n_critics, least=1, most=MAX_CRITICS, whole=True)
        check_number("dropout", dropout, most=MAX_DROPOUT)
        width = features_extractor.features_dim
        learned = bool(state_arch) or next(features_extractor.parameters(), None) is not None
        self.state_layers = nn.Sequential()
        if state_arch:
            first = nn.Linear(width, state_arch[0])
            self.state_layers.append(first).extend(
                hidden_layers(state_arch[0], state_arch[1:], activation_fn, layer_norm)
            )
            width = state_arch[-1]
        n_actions = int(actions.space.n) if actions.is_numbered else actions.n  # type: ignore[union-attr]
        others = (dropout, actions.is_numbered, actions.slots, unit_features)
        levels = None if actions.levels is None else self.scale.to_level_inputs(actions.levels)
        shape = Shape(width, actions.dim, n_actions, net_arch, activation_fn, layer_norm, learned, *others, levels)
        self.q_networks = nn.ModuleList((form or MLP())(shape) for _ in range(n_critics))
        self.values = Standardize()
        """Networks say values in standard units: whatever the reward's unit, they learn numbers of about 1."""

    def features(self, obs: PyTorchObs) -> Tensor:
        return self.state_layers(super().features(obs))

    def forward(self, obs: PyTorchObs, vectors: Tensor) -> Tensor:
        """Values by every network, of one action per state (batch, dim) or k (batch, k, dim): (critics, batch[, k])."""
        features, inputs = self.features(obs), self.scale.to_inputs(vectors)
        return self.values.invert(torch.stack([q(features, inputs) for q in self.q_networks]))

    def cross(self, obs: PyTorchObs, vectors: Tensor) -> Tensor:
        """Values by every network of the same m actions (m, dim) in every state: (critics, batch, m)."""
        features, inputs = self.features(obs), self.scale.to_inputs(vectors)
        if not self.has_keys:
            every = inputs.expand(len(features), *inputs.shape)
            return self.values.invert(torch.stack([q(features, every) for q in self.q_networks]))
        queries = (network.query(features) for network in self.networks)
        keys = (network.key(inputs) for network in self.networks)
        products = (torch.addmm(u.unsqueeze(1), phi, key.t()) for (phi, u), key in zip(queries, keys, strict=True))
        return self.values.invert(torch.stack(list(products)))

    @property
    def networks(self) -> list[Any]:
        """The networks themselves, one or several of one form."""
        return list(self.q_networks)

    @property
    def has_keys(self) -> bool:
        """Whether values are products of a state's query and an action's key, so that all of A can be searched."""
        return all(network.has_keys for network in self.networks)

    def queries(self, obs: PyTorchObs) -> Tensor:
        """(phi, 1) of states by each network, side by side (batch, width)."""
        features = self.features(obs)
        return torch.cat([network.query(features)[0] for network in self.networks], dim=1)

    def keys(self, vectors: Tensor, *, with_values: bool = True) -> Tensor:
        """(psi, v) of actions (n, dim) by each network, or psi alone, side by side (n, width)."""
        inputs = self.scale.to_inputs(vectors)
        keys = [network.key(inputs) for network in self.networks]
        return torch.cat(keys if with_values else [key[:, :-1] for key in keys], dim=1)
