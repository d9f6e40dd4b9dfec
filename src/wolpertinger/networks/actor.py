"""The actor: a state becomes a proto-action."""

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

from wolpertinger.actions import ActionSet
from wolpertinger.networks.layers import UnitFeatures, hidden_layers, last_layer
from wolpertinger.networks.scaling import ScaledModel
from wolpertinger.settings import check_choice


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


class Actor(ScaledModel):
    """f: a state becomes a proto-action inside the box of the actions' vectors."""

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
        bound: str = "tanh",
        normalize_images: bool = True,
    ) -> None:
        super().__init__(observation_space, action_space, actions, features_extractor, normalize_images)
        check_choice("bound", bound, BOUNDS)
        self.mu = nn.Sequential(
            nn.Linear(features_extractor.features_dim, net_arch[0]),
            *hidden_layers(net_arch[0], net_arch[1:], activation_fn, layer_norm),
            *([UnitFeatures()] if unit_features else []),
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
