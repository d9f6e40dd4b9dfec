"""The scaling of the actions' vectors, and the base of the networks that scale."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

from wolpertinger.actions import ActionSet

SAMPLED_ACTIONS, SAMPLED_NUMBERS = 1000, 2**22  # of which the size of vectors is measured, at most
MOST_SPREADS = 5.0  # of a sample's numbers from their mean
LEAST_VARIATION = 1e-6  # relative: what varies less is constant, but for rounding


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
        rows = max(1, min(SAMPLED_ACTIONS, SAMPLED_NUMBERS // actions.dim))
        sample = actions.sample_vectors(np.random.default_rng(0), rows)
        spread = self.to_unit(torch.as_tensor(sample).float()).square().mean().sqrt()
        self.register_buffer("spread", spread.where(spread > 0, torch.ones_like(spread)))

    def to_unit(self, vectors: Tensor) -> Tensor:
        """Vectors in [-1, 1] per dimension."""
        return (vectors - self.middle) / self.divisor

    def to_vectors(self, unit: Tensor) -> Tensor:
        """The inverse of `to_unit`."""
        return self.middle + self.radius * unit

    def to_inputs(self, vectors: Tensor) -> Tensor:
        """What the critic reads: as `to_unit`, with entries of root mean square 1 over the set.

        A few far-out vectors make the box wide and the rest small in it; beside a state of size 1 the critic would
        hardly see the action.
        """
        return self.to_unit(vectors) / self.spread

    def to_level_inputs(self, levels: Sequence[npt.NDArray]) -> tuple[npt.NDArray[np.float32], ...]:
        """The same of the levels of each factor, (i,) or (i, m): (i, m)."""
        parts = [np.array(own, np.float32).reshape(len(own), -1) for own in levels]
        ends = np.cumsum([own.shape[1] for own in parts]).tolist()
        middle, divisor, spread = (part.numpy(force=True) for part in (self.middle, self.divisor, self.spread))
        own = (slice(end - part.shape[1], end) for part, end in zip(parts, ends, strict=True))
        return tuple((part - middle[at]) / divisor[at] / spread for part, at in zip(parts, own, strict=True))

    def stretch(self, differences: Tensor) -> Tensor:
        """Differences of the critic's inputs, for differences of vectors, which are overwritten."""
        return differences.mul_(1 / (self.divisor * self.spread))


class Standardize(nn.Module):
    """Numbers less their mean, over their spread: those of a sample, or 0 and 1 until there was one."""

    mean: Tensor
    spread: Tensor
    is_fitted: Tensor

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("spread", torch.ones(shape))
        self.register_buffer("is_fitted", torch.tensor(False))

    def forward(self, numbers: Tensor) -> Tensor:
        return (numbers - self.mean) / self.spread

    def invert(self, numbers: Tensor) -> Tensor:
        """What standardizes to these numbers."""
        return self.mean + self.spread * numbers

    def fit(self, sample: Tensor) -> None:
        """Go by this sample (n, ...) from now on; numbers that do not vary in it are only shifted.

        What is rare is not blown up: nothing in the sample comes out larger than `MOST_SPREADS`.
        """
        sample = sample.double()
        spread, mean = torch.std_mean(sample, dim=0, correction=0)
        spread = torch.maximum(spread, (sample - mean).abs().amax(dim=0) / MOST_SPREADS)
        varies = spread > LEAST_VARIATION * (1 + mean.abs())
        self.spread.copy_(torch.where(varies, spread, torch.ones_like(spread)))
        self.mean.copy_(mean)
        self.is_fitted.fill_(True)


class ScaledModel(BaseModel):
    """What actor and critic share: a features extractor for the state, its scale, and that of the actions' vectors."""

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
        self.states = Standardize((features_extractor.features_dim,))

    def features(self, obs: PyTorchObs) -> Tensor:
        """The state as the network reads it (batch, features_dim)."""
        return self.states(self.extract_features(obs, self.features_extractor))
