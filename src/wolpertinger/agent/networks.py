"""Actor and critic. Both speak in the actions' own vectors; each scales them to [-1, 1] inside, nobody else does."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

from wolpertinger.actions import ActionSet, sample_actions
from wolpertinger.agent.layers import hidden_layers, last_layer
from wolpertinger.agent.towers import TwoTower

SAMPLED_ACTIONS = 1000  # of which the size of vectors is measured


class VectorScale(nn.Module):
    """The affine map between an action set's box of vectors and [-1, 1] per dimension; 0 where the box has no width."""

    middle: Tensor
    radius: Tensor
    divisor: Tensor
    spread: Tensor

    def __init__(self, actions: ActionSet) -> None:
        super().__init__()
        low, high = torch.as_tensor(actions.low).float(), torch.as_tensor(actions.high).float()
        # Buffers, saved with the networks: these go by the box they learned in, also if actions come or go.
        radius = (high - low) / 2
        self.register_buffer("middle", (low + high) / 2)
        self.register_buffer("radius", radius)
        self.register_buffer("divisor", radius.where(radius > 0, torch.ones_like(radius)))
        sample = sample_actions(actions, np.random.default_rng(0), SAMPLED_ACTIONS)
        spread = self.to_unit(torch.as_tensor(actions.embed(sample)).float()).square().mean().sqrt()
        self.register_buffer("spread", spread.where(spread > 0, torch.ones_like(spread)))

    def to_unit(self, vectors: Tensor) -> Tensor:
        return (vectors - self.middle) / self.divisor

    def to_vectors(self, unit: Tensor) -> Tensor:
        return self.middle + self.radius * unit

    def to_inputs(self, vectors: Tensor) -> Tensor:
        """What the critic reads: as `to_unit`, with entries of root mean square 1 over the set.

        A few far-out vectors make the box wide and the rest small in it; beside a state of size 1 the critic would
        hardly see the action (on the recommender's vectors it shrinks them by 2.6).
        """
        return self.to_unit(vectors) / self.spread

    def stretch(self, differences: Tensor) -> Tensor:
        """Differences of the critic's inputs, for differences of vectors, which are overwritten."""
        return differences.mul_(1 / (self.divisor * self.spread))

    def fold(self, offset: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Offset and slope that do to vectors what the given ones (..., n), (..., n, dim) do to the critic's inputs."""
        slope = slope / (self.divisor * self.spread)
        return offset - slope @ self.middle, slope


class _InvertGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        room = torch.where(gradient < 0, 1 - x, 1 + x) / 2  # in the direction that descent takes; negative outside
        return gradient * room


class InvertedGradients(nn.Module):
    """Keeps outputs in [-1, 1] by shrinking the gradient towards a bound and turning it round beyond.

    Where tanh is flat at its bounds, so that an actor that sits there hardly learns, this one leaves them as fast as it
    came (Hausknecht and Stone, "Deep Reinforcement Learning in Parameterized Action Space", 2016).
    """

    def forward(self, x: Tensor) -> Tensor:
        return _InvertGradients.apply(x)  # type: ignore[no-untyped-call]


BOUNDS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "inverted gradients": InvertedGradients}


class ScaledModel(BaseModel):
    """What actor and critic share: a features extractor for the state, and the scale of the actions' vectors."""

    features_extractor: BaseFeaturesExtractor

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        actions: ActionSet,
        features_extractor: BaseFeaturesExtractor,
        normalize_images: bool,
    ) -> None:
        super().__init__(
            observation_space, action_space, features_extractor=features_extractor, normalize_images=normalize_images
        )
        self.scale = VectorScale(actions)

    def features(self, obs: PyTorchObs) -> Tensor:
        return self.extract_features(obs, self.features_extractor)


class Actor(ScaledModel):
    """f: a state becomes a proto-action inside the box of the actions' vectors."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        actions: ActionSet,
        net_arch: list[int],
        features_extractor: BaseFeaturesExtractor,
        activation_fn: type[nn.Module] = nn.ReLU,
        layer_norm: bool = False,
        bound: str = "tanh",
        normalize_images: bool = True,
    ) -> None:
        super().__init__(observation_space, action_space, actions, features_extractor, normalize_images)
        if bound not in BOUNDS:
            raise ValueError(f"bound={bound!r}: give one of {', '.join(map(repr, BOUNDS))}")
        self.mu = nn.Sequential(
            nn.Linear(features_extractor.features_dim, net_arch[0]),
            *hidden_layers(net_arch[0], net_arch[1:], activation_fn, layer_norm),
            last_layer(net_arch[-1], actions.dim),
            BOUNDS[bound](),
        )

    def unit(self, obs: PyTorchObs) -> Tensor:
        """The proto-action in [-1, 1]."""
        return self.mu(self.features(obs))

    def forward(self, obs: PyTorchObs) -> Tensor:
        return self.scale.to_vectors(self.unit(obs))

    def distance(self, obs: PyTorchObs, vectors: Tensor) -> Tensor:
        """Mean squared distance, in [-1, 1] per dimension, of the proto-actions to given vectors."""
        return (self.unit(obs) - self.scale.to_unit(vectors)).square().sum(dim=-1).mean()


class QNetwork(nn.Module):
    """Q(s, a) with its first layer split, so that many actions of one state share the state's part.

    With `interaction` the first layer also holds products of a projection of the state and one of the action.
    """

    def __init__(
        self,
        features_dim: int,
        dim: int,
        net_arch: list[int],
        activation_fn: type[nn.Module],
        layer_norm: bool,
        interaction: bool,
    ) -> None:
        super().__init__()
        width = net_arch[0]
        self.state = nn.Linear(features_dim, width)
        self.action = nn.Linear(dim, width, bias=False)
        self.state_factor = nn.Linear(features_dim, width) if interaction else None
        self.action_factor = nn.Linear(dim, width) if interaction else None
        self.rest = nn.Sequential(
            *hidden_layers(width, net_arch[1:], activation_fn, layer_norm), last_layer(net_arch[-1], 1)
        )

    def forward(self, features: Tensor, inputs: Tensor) -> Tensor:
        """Values of one action per state (batch, dim), or of k (batch, k, dim): (batch,) or (batch, k)."""
        features = features.unsqueeze(1) if inputs.dim() == 3 else features  # broadcasts over the k candidates
        hidden = self.state(features) + self.action(inputs)
        if self.state_factor is not None and self.action_factor is not None:
            hidden = hidden + self.state_factor(features) * self.action_factor(inputs)
        return self.rest(hidden).squeeze(-1)

    def state_parts(self, features: Tensor) -> tuple[Tensor, Tensor | None]:
        """The state's part of the first layer, and what it multiplies the action's by if they interact."""
        return self.state(features), None if self.state_factor is None else self.state_factor(features)

    def affine(self, state: Tensor, factor: Tensor | None) -> tuple[Tensor, Tensor]:
        """The first layer in each state, as offset + slope . action: (batch, width) and (batch, width, dim)."""
        if factor is None or self.action_factor is None:
            return state, self.action.weight.expand(len(state), -1, -1)
        return state + factor * self.action_factor.bias, torch.addcmul(
            self.action.weight, factor.unsqueeze(-1), self.action_factor.weight
        )


class Critic(ScaledModel):
    """Q, or several of them: their least is the value of an action (twin critics, as in TD3).

    Layers of `state_arch` read the state before it meets any action: whatever their size, k candidates cost no more.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        actions: ActionSet,
        net_arch: list[int],
        features_extractor: BaseFeaturesExtractor,
        activation_fn: type[nn.Module] = nn.ReLU,
        layer_norm: bool = False,
        interaction: bool = False,
        n_critics: int = 1,
        state_arch: list[int] | None = None,
        form: str = "mlp",
        tower_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
    ) -> None:
        super().__init__(observation_space, action_space, actions, features_extractor, normalize_images)
        if tower_kwargs and form != "two-tower":
            raise ValueError(f'tower_kwargs={tower_kwargs!r} are for critic="two-tower", not for critic={form!r}')
        learned = bool(state_arch) or next(features_extractor.parameters(), None) is not None
        if learned and (tower_kwargs or {}).get("state_memory"):
            raise ValueError(
                "state_memory tells states apart by their numbers, which layers before it would change as they learn: "
                "leave out state_arch, and take a features extractor without weights"
            )
        width = features_extractor.features_dim
        self.state_layers = nn.Sequential()
        if state_arch:
            first = nn.Linear(width, state_arch[0])
            self.state_layers.append(first).extend(
                hidden_layers(state_arch[0], state_arch[1:], activation_fn, layer_norm)
            )
            width = state_arch[-1]
        shape: tuple[int, int, list[int], type[nn.Module], bool] = (
            width,
            actions.dim,
            net_arch,
            activation_fn,
            layer_norm,
        )
        towers: dict[str, Any] = {"n_actions": actions.n, **(tower_kwargs or {})}
        self.q_networks = nn.ModuleList(
            TwoTower(*shape, **towers) if form == "two-tower" else QNetwork(*shape, interaction=interaction)
            for _ in range(n_critics)
        )

    def features(self, obs: PyTorchObs) -> Tensor:
        return self.state_layers(super().features(obs))

    def forward(self, obs: PyTorchObs, vectors: Tensor) -> Tensor:
        """Every critic's value of one action per state (batch, dim), or of k (batch, k, dim): (critics, batch, ...)."""
        features, inputs = self.features(obs), self.scale.to_inputs(vectors)
        return torch.stack([q(features, inputs) for q in self.q_networks])

    @property
    def towers(self) -> list[TwoTower]:
        """The critics, if they are of two towers."""
        return [network for network in self.networks if isinstance(network, TwoTower)]

    def keys(self, inputs: Tensor, *, values: bool = True) -> Tensor:
        """(psi, v) of actions by each of the towers, or psi alone, side by side (n, width)."""
        keys = [network.key(inputs) for network in self.towers]
        return torch.cat(keys if values else [key[:, :-1] for key in keys], dim=1)

    @property
    def networks(self) -> list[QNetwork | TwoTower]:
        """The critics themselves, one or several."""
        return list(self.q_networks)  # type: ignore[arg-type]
