"""A critic that factorises, Q(s, a) = phi(s) . psi(a) + v(a) + u(s): the best action is an inner-product search."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from wolpertinger.networks.hashed_embedding import SCALE, HashedEmbedding, count_rows
from wolpertinger.networks.layers import LAST_LAYER, Shape, last_layer
from wolpertinger.networks.scaling import VectorScale
from wolpertinger.settings import Settings, check_flag, check_number

# Of a row of an action that is known by its number, beside `embedding_scale`: no network helps it, and most updates
# pass it by. 1 learns less on bandits of 100 and 5,000 actions, 7 no more.
ROW_SCALE = 3.0
MAX_WIDTH = 2**16
SMALL_LINEAR = 0.1  # of an action's linear path at first


@dataclass(frozen=True)
class TwoTower(Settings):
    """A two-tower critic, which can search all of A: `candidates="critic"`."""

    kind: ClassVar[str] = "two-tower"
    has_keys: ClassVar[bool] = True
    width: int = 64
    """Of phi and psi. Where few items are good for many states a small width learns sooner and is searched faster."""
    state_embedding: int | float = 0
    """Rows of a hashed embedding of states, such as the items that users come from: a count (int), or so many times the
    number of actions (float); 0: none."""
    action_embedding: int | float = 0
    """Rows of a hashed embedding of actions, in the same way."""
    embedding_scale: float = SCALE
    """How much faster than the learning rate an embedding moves; less of it averages over more tries."""
    linear: bool = False
    """A linear path beside each tower's network: values begin as products of state and action, to which the networks
    add. Learns what a bilinear model can from few samples."""
    state_neighbours: int = 0
    """What stands in for the row of a state that nothing was learned of: the mean of so many nearest states' rows; 0:
    zeros."""
    optimism: float = 0.0
    """Added to the value of an action that nothing was learned of, for a fair try; over 1 + the samples learned from.
    In units of the reward, or, with `standardize`, of the returns' spread."""

    def __post_init__(self) -> None:
        check_number("width", self.width, least=1, most=MAX_WIDTH, whole=True)
        check_flag("linear", self.linear)
        check_number("embedding_scale", self.embedding_scale, above=True)
        count_rows("state_embedding", self.state_embedding, 0)
        count_rows("action_embedding", self.action_embedding, 0)
        check_number("state_neighbours", self.state_neighbours, whole=True)
        check_number("optimism", self.optimism)
        for name, rows in (("state_neighbours", "state_embedding"), ("optimism", "action_embedding")):
            if (given := getattr(self, name)) and not getattr(self, rows):
                raise ValueError(f"{name}={given!r} without {rows}, whose rows tell what is new: give {rows} too")

    @property
    def needs_fixed_features(self) -> bool:
        """Whether states are told apart by their numbers, which nothing before the network may change over time."""
        return bool(self.state_embedding)

    def __call__(self, shape: Shape) -> "TwoTowerNetwork":
        return TwoTowerNetwork(shape, self)


class Tower(nn.Module):
    """An MLP plus an optional hashed embedding and an optional linear path."""

    def __init__(self, inputs: int, last: nn.Linear, shape: Shape, linear: bool, rows: int, **of_rows: Any) -> None:
        super().__init__()
        hidden = shape.hidden()
        self.network = nn.Sequential(nn.Linear(inputs, shape.net_arch[0]), *hidden, last)
        self.embedding = HashedEmbedding(inputs, rows, last.out_features, **of_rows) if rows else None
        self.linear = nn.Linear(inputs, last.out_features, bias=False) if linear else None
        if self.linear is not None:
            nn.init.zeros_(self.linear.weight[-1])  # u(s) and v(a) start near 0

    def forward(self, vectors: Tensor) -> Tensor:
        known = self.network(vectors)
        for part in (self.embedding, self.linear):
            known = known if part is None else known + part(vectors)
        return known


class NumberTower(nn.Module):
    """A learned row for each action, whose vector is its number in binary: the last layer of a DQN, looked up."""

    places: Tensor

    def __init__(self, bits: int, rows: int, outputs: int, scale: float) -> None:
        super().__init__()
        self.scale = ROW_SCALE * scale
        self.rows = nn.Parameter(torch.empty(rows, outputs).uniform_(-LAST_LAYER, LAST_LAYER))
        self.register_buffer("places", 2 ** torch.arange(bits))

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *args: Any) -> None:
        places = state.get(f"{prefix}places")
        if places is not None and not torch.equal(places.cpu(), self.places.cpu()):
            raise ValueError(f"{prefix}places are {places.tolist()}: rows would be looked up that are not there")
        super()._load_from_state_dict(state, prefix, *args)

    def forward(self, vectors: Tensor) -> Tensor:
        numbers = ((vectors > 0) * self.places).sum(dim=-1)
        return self.scale * nn.functional.embedding(numbers, self.rows)


class TwoTowerNetwork(nn.Module):
    """One tower reads the state, the other one the action; psi and v are one vector per action, whatever the state."""

    has_keys = True

    def __init__(self, shape: Shape, settings: TwoTower) -> None:
        super().__init__()
        if settings.needs_fixed_features and shape.learned_features:
            raise ValueError(
                "state_embedding tells states apart by their numbers, which layers before it would change as they "
                "learn: leave out state_arch, and take a features extractor without weights"
            )
        rows = {
            name: count_rows(name, getattr(settings, name), shape.n_actions)
            for name in ("state_embedding", "action_embedding")
        }
        # Values start near 0 if one of the factors does; if both did, neither would have a gradient.
        outputs, linear = settings.width + 1, settings.linear
        last = last_layer(shape.net_arch[-1], outputs) if linear else nn.Linear(shape.net_arch[-1], outputs)
        with torch.no_grad():  # u(s) as well
            last.weight[-1].zero_()
            last.bias[-1].zero_()
        of_rows = {"scale": settings.embedding_scale, "neighbours": settings.state_neighbours}
        self.state_tower = Tower(shape.features_dim, last, shape, linear, rows["state_embedding"], **of_rows)
        self.action_tower = self._make_action_tower(shape, settings, rows["action_embedding"])

    def _make_action_tower(self, shape: Shape, settings: TwoTower, rows: int) -> nn.Module:
        outputs, scale = settings.width + 1, settings.embedding_scale
        if shape.is_numbered:
            if rows:
                raise ValueError(
                    f"action_embedding={settings.action_embedding}: ActionIds have a row each; leave it out"
                )
            return NumberTower(shape.dim, shape.n_actions, outputs, scale)
        last, of_rows = last_layer(shape.net_arch[-1], outputs), {"scale": scale, "optimism": settings.optimism}
        tower = Tower(shape.dim, last, shape, settings.linear, rows, **of_rows)
        if tower.linear is not None:
            with torch.no_grad():
                tower.linear.weight.mul_(SMALL_LINEAR)
        return tower

    def forward(self, features: Tensor, inputs: Tensor) -> Tensor:
        """Values of one action per state (batch, dim), or of k (batch, k, dim): (batch,) or (batch, k)."""
        query, offset = self.query(features)
        query, offset = (query.unsqueeze(1), offset.unsqueeze(1)) if inputs.dim() == 3 else (query, offset)
        return (query * self.key(inputs)).sum(dim=-1) + offset

    def query(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(phi(s), 1) and u(s): the first one's product with an action's key, plus the second, is its value."""
        out = self.state_tower(features)
        return torch.cat([out[..., :-1], torch.ones_like(out[..., -1:])], dim=-1), out[..., -1]

    def key(self, inputs: Tensor) -> Tensor:
        """(psi(a), v(a)) of actions (..., dim): (..., width + 1)."""
        return self.action_tower(inputs)

    def in_states(self, features: Tensor, scale: VectorScale) -> "TowerValues":
        """The network in a batch of states, for many actions each."""
        return TowerValues(self, features, scale)


class TowerValues:
    """A two-tower critic in a batch of states, of which it holds the queries. No gradients."""

    shared_from = 0

    def __init__(self, network: TwoTowerNetwork, features: Tensor, scale: VectorScale) -> None:
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
