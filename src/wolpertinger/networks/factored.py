"""A critic of products of levels that is a mean over the factors: its best combination is each factor's best level."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wolpertinger.networks.layers import Shape, last_layer
from wolpertinger.networks.scaling import VectorScale
from wolpertinger.settings import Settings, check_number

Reals = npt.NDArray[np.float32]
MAX_KNOTS = 2**12
MAX_UTILITIES = 2**16  # outputs of a network, over all factors


@dataclass(frozen=True)
class Factored(Settings):
    """Q(s, a) = u(s) + the mean over factors i of q_i(s, level of i): for `ActionProduct`, searched with
    `candidates="factors"` (action branching, Tavakoli et al., 2018; decoupled Q-learning, Seyde et al., 2023).
    """

    kind: ClassVar[str] = "factored"
    has_keys: ClassVar[bool] = False
    needs_fixed_features: ClassVar[bool] = False
    knots: int = 33
    """Of a factor with more scalar levels than that, evenly over its levels: its values are interpolated between."""

    def __post_init__(self) -> None:
        check_number("knots", self.knots, least=2, most=MAX_KNOTS, whole=True)

    def __call__(self, shape: Shape) -> "FactoredNetwork":
        if shape.levels is None:
            raise ValueError('critic="factored" is for products of levels: give actions=ActionProduct(levels)')
        return FactoredNetwork(shape.levels, shape, self.knots)


class Places(NamedTuple):
    """Where actions lie among the knots of some factors."""

    below: Tensor
    above: Tensor
    share: Tensor
    """Of the way from the one below to the one above; each (n, factors)."""

    def view(self, batch: int, k: int) -> "Places":
        """Of k actions in each state (batch, k, factors)."""
        return Places(*(part.view(batch, k, -1) for part in self))

    def read(self, utilities: Tensor) -> Tensor:
        """Values (batch, k, factors) at these places, of utilities (batch, factors, knots)."""
        below, above = (_read(utilities, place) for place in (self.below, self.above))
        return torch.lerp(below, above, self.share)


def _read(utilities: Tensor, places: Tensor) -> Tensor:
    if len(places) == 1:  # the same actions in every state
        factors = torch.arange(utilities.shape[1], device=utilities.device)
        return utilities[:, factors, places[0]]
    return utilities.gather(2, places.transpose(1, 2)).transpose(1, 2)


class Knots(nn.Module):
    """The knots of some factors: of scalars some of the levels, between which values are linear, else all levels."""

    columns: Tensor
    points: Tensor
    level_of: Tensor
    is_real: Tensor

    def __init__(self, numbers: Sequence[int], columns: Sequence[slice], levels: Sequence[Reals], most: int) -> None:
        super().__init__()
        self.numbers, self.is_scalar = list(numbers), levels[0].shape[1] == 1
        knots = [_thin(own[:, 0], most) if self.is_scalar else np.arange(len(own)) for own in levels]
        count = max(len(own) for own in knots)
        # Behind the last of a factor with fewer there is its last one again, which no search returns.
        level_of = np.stack([own[np.minimum(np.arange(count), len(own) - 1)] for own in knots])
        arrays = {
            "columns": np.concatenate([np.arange(own.start, own.stop) for own in columns]),
            "points": np.stack([part[own] for part, own in zip(levels, level_of, strict=True)]),
            "level_of": level_of,
            "is_real": np.arange(count) < np.array([[len(own)] for own in knots]),
        }
        for name, array in arrays.items():
            self.register_buffer(name, torch.from_numpy(array), persistent=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Factors and knots."""
        return self.level_of.shape[0], self.level_of.shape[1]

    def find(self, inputs: Tensor) -> Places:
        """Where actions (n, dim), as the network reads them, lie: (n, factors)."""
        return self._find(inputs[:, self.columns].view(len(inputs), *self.points.shape[::2]), slice(None))

    def find_levels(self, place: int, levels: Tensor) -> Places:
        """Where the levels (i, m) of one of the factors lie: (1, i, 1)."""
        return self._find(levels.unsqueeze(1), slice(place, place + 1)).view(1, len(levels))

    def _find(self, own: Tensor, factors: slice) -> Places:
        """Where parts of actions (n, factors, m) lie among the knots of these factors."""
        all_points, is_real = self.points[factors], self.is_real[factors]
        if not self.is_scalar:
            distances = (own.unsqueeze(2) - all_points).square().sum(dim=-1).masked_fill(~is_real, torch.inf)
            nearest = distances.argmin(dim=2)
            return Places(nearest, nearest, own.new_zeros(nearest.shape))
        points, x = all_points[:, :, 0], own[:, :, 0].t().contiguous()
        above = torch.searchsorted(points, x.detach()).clamp(min(1, self.shape[1] - 1), self.shape[1] - 1)
        below = (above - 1).clamp_min(0)
        lower = points.gather(1, below)
        gap = points.gather(1, above) - lower
        share = ((x - lower) / gap.where(gap > 0, torch.ones_like(gap))).clamp(0, 1)
        return Places(below.t(), above.t(), share.t())

    def best(self, utilities: Tensor) -> Tensor:
        """The levels (batch, factors) with the largest of utilities (batch, factors, knots)."""
        places = utilities.masked_fill(~self.is_real, -torch.inf).argmax(dim=2)
        return self.level_of.expand(len(places), -1, -1).gather(2, places.unsqueeze(2)).squeeze(2)


def _thin(levels: Reals, most: int) -> npt.NDArray[np.int64]:
    """The numbers of the levels that are knots, by ascending level, of equal ones the first."""
    _, first = np.unique(levels, return_index=True)
    if len(first) <= most:
        return first
    return first[np.linspace(0, len(first) - 1, most).round().astype(np.int64)]


class FactoredNetwork(nn.Module):
    """One network reads the state, and says a utility for each knot of each factor."""

    has_keys = False

    def __init__(self, levels: Sequence[Reals], shape: Shape, most: int) -> None:
        super().__init__()
        self.levels = [torch.from_numpy(own) for own in levels]
        ends = np.cumsum([own.shape[1] for own in levels]).tolist()
        columns = [slice(end - own.shape[1], end) for own, end in zip(levels, ends, strict=True)]
        alike: dict[Any, list[int]] = {}  # all scalar factors, and vectors of the same number and length
        for number, own in enumerate(levels):
            alike.setdefault(None if own.shape[1] == 1 else tuple(own.shape), []).append(number)
        made = [
            Knots(own, [columns[number] for number in own], [levels[number] for number in own], most)
            for own in alike.values()
        ]
        self.groups = nn.ModuleList(made)
        self._shapes = [own.shape for own in made]
        self.sizes = [factors * knots for factors, knots in self._shapes]
        if sum(self.sizes) > MAX_UTILITIES:
            raise ValueError(f"{sum(self.sizes):,} levels in all: a factored critic takes {MAX_UTILITIES:,} at most")
        self.trunk = nn.Sequential(nn.Linear(shape.features_dim, shape.net_arch[0]), *shape.hidden())
        self.last = last_layer(shape.net_arch[-1], sum(self.sizes) + 1)

    def utilities(self, features: Tensor) -> tuple[list[Tensor], Tensor]:
        """Of each group of factors (batch, factors, knots), and the states' own values (batch,)."""
        *parts, own = torch.split(self.last(self.trunk(features)), [*self.sizes, 1], dim=1)
        return [part.view(-1, *shape) for part, shape in zip(parts, self._shapes, strict=True)], own[:, 0]

    def forward(self, features: Tensor, inputs: Tensor) -> Tensor:
        """Values of one action per state (batch, dim), or of k (batch, k, dim): (batch,) or (batch, k)."""
        values = self.values(self.utilities(features), inputs if inputs.dim() == 3 else inputs.unsqueeze(1))
        return values if inputs.dim() == 3 else values.squeeze(1)

    def values(self, utilities: tuple[list[Tensor], Tensor], inputs: Tensor) -> Tensor:
        """Values (batch, k) of actions (batch, k, dim), or of the same ones (1, k, dim), by the states' utilities."""
        by_group, own = utilities
        total = own.new_zeros(())
        for group, part in zip(self.groups, by_group, strict=True):
            places = group.find(inputs.flatten(0, 1)).view(*inputs.shape[:2])  # type: ignore[operator]
            total = total + places.read(part).sum(dim=-1)
        return own.unsqueeze(1) + total / len(self.levels)

    def in_states(self, features: Tensor, scale: VectorScale) -> "FactoredValues":
        """The network in a batch of states, for many actions each."""
        return FactoredValues(self, features, scale)


class FactoredValues:
    """A factored critic in a batch of states, of which it holds the utilities. No gradients."""

    shared_from = 0

    def __init__(self, network: FactoredNetwork, features: Tensor, scale: VectorScale) -> None:
        self.network, self.scale, self.utilities = network, scale, network.utilities(features)

    def __call__(self, states: slice | Tensor, vectors: Tensor) -> Tensor:
        """Values (n, m) of actions (n, m, dim) in these n states."""
        by_group, own = self.utilities
        return self.network.values(([part[states] for part in by_group], own[states]), self.scale.to_inputs(vectors))

    def of_shared(self, vectors: Tensor) -> Tensor:
        """Values (batch, m) of the same actions (m, dim) in every state."""
        return self.network.values(self.utilities, self.scale.to_inputs(vectors).unsqueeze(0))
