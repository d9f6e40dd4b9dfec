"""A critic of slates that is the mean of its items' values: the best slate is the best items, best first."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from wolpertinger.networks.layers import Shape
from wolpertinger.networks.mlp import MLP
from wolpertinger.networks.scaling import VectorScale
from wolpertinger.networks.two_tower import TwoTower
from wolpertinger.settings import Settings, read_settings


@dataclass(frozen=True)
class PerItem(Settings):
    """The mean of single-item values, for sets of slates; `candidates="top"` finds the best slate of all."""

    kind: ClassVar[str] = "per-item"
    has_keys: ClassVar[bool] = False
    of: Any = field(default_factory=lambda: TwoTower(width=32, linear=True))
    """What values an item: `TwoTower(...)` or `MLP(...)`."""

    def __post_init__(self) -> None:
        read = read_settings("of", self.of, {"mlp": MLP, "two-tower": TwoTower})
        object.__setattr__(self, "of", read)

    @property
    def needs_fixed_features(self) -> bool:
        """As the items' critic does."""
        return bool(self.of.needs_fixed_features)

    def __call__(self, shape: Shape) -> "PerItemNetwork":
        if shape.slots is None:
            raise ValueError('critic="per-item" is for slates: give actions=Slate(items, size=...)')
        own = replace(shape, dim=shape.dim // shape.slots, slots=None)
        return PerItemNetwork(self.of(own), shape.slots, own.dim)


class PerItemNetwork(nn.Module):
    """Q(s, slate): the mean of q(s, item) over the slots."""

    has_keys = False

    def __init__(self, of_item: nn.Module, slots: int, dim: int) -> None:
        super().__init__()
        self.of_item, self.slots, self.dim = of_item, slots, dim

    def forward(self, features: Tensor, inputs: Tensor) -> Tensor:
        """Values of one slate per state (batch, dim), or of k (batch, k, dim): (batch,) or (batch, k)."""
        values = self.of_item(features, inputs.reshape(len(inputs), -1, self.dim))
        return values.view(*inputs.shape[:-1], self.slots).mean(dim=-1)

    def in_states(self, features: Tensor, scale: VectorScale) -> "PerItemValues":
        """The network in a batch of states, for many slates each."""
        return PerItemValues(self, features, scale)


class _AsItIs:
    """The scale of what is scaled already."""

    @staticmethod
    def to_inputs(vectors: Tensor) -> Tensor:
        return vectors


class PerItemValues:
    """Such a critic in a batch of states. No gradients."""

    shared_from = 0

    def __init__(self, network: PerItemNetwork, features: Tensor, scale: VectorScale) -> None:
        self.network, self.scale = network, scale
        self.items = network.of_item.in_states(features, _AsItIs())  # type: ignore[operator]

    def __call__(self, states: slice | Tensor, vectors: Tensor) -> Tensor:
        """Values (n, m) of slates (n, m, dim) in these n states."""
        inputs = self.scale.to_inputs(vectors).reshape(len(vectors), -1, self.network.dim)
        return self.items(states, inputs).view(*vectors.shape[:2], -1).mean(dim=-1)

    def of_shared(self, vectors: Tensor) -> Tensor:
        """Values (batch, m) of the same slates (m, dim) in every state."""
        inputs = self.scale.to_inputs(vectors).reshape(-1, self.network.dim)
        values = self.items.of_shared(inputs)  # (batch, m * slots)
        return values.view(len(values), len(vectors), -1).mean(dim=-1)

    def of_items(self, vectors: Tensor) -> Tensor:
        """Values (batch, m) of the same items (m, item's dim) in every state, whatever the slot."""
        inputs = self.scale.to_inputs(vectors.repeat(1, self.network.slots))[:, : self.network.dim]
        return self.items.of_shared(inputs)
