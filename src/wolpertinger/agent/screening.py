"""Re-ranking with a fraction of the arithmetic and, all but always, the same choice.

The candidates of a state lie close together: among them most units of the critic are nearly linear, and what they pass
on is a linear function of their own inputs, however many they are. A stand-in for the critic keeps the few units of
each layer that bend most, and puts straight lines in the place of the others. The candidates that can still win, by its
estimates and their errors, are then scored by the critic itself.

How often the choice agrees is measured: docs/performance.md.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wolpertinger.agent.networks import Critic, QNetwork, VectorScale
from wolpertinger.agent.rerank import Best, Values, blocks, exact

LEAST = 256  # candidates: fewer are scored as fast as they are screened
WIDEST = 64  # vectors: wider ones make the stand-in cost more than it saves (200 numbers: half as fast to 1.2 times)
SAMPLE = 32  # of a state's candidates, on which its lines are fitted
KEPT = 32  # units per state and layer that stay as they are
FIRST = 0.1  # share of the candidates, those with the largest estimates, that the critic scores in any case
MARGIN = 5.0  # standard deviations of the estimates' errors by which a candidate must fall short to be out
BLOCK = 4096  # candidates estimated together

Stage = Callable[[Tensor, slice], Tensor]


def screened(critic: Critic, features: Tensor, vectors: Tensor) -> Best:
    """As `exact`, by the values of those actions only that can still win after screening."""
    *_, k, dim = vectors.shape
    if k < LEAST or dim > WIDEST:
        return exact(critic, features, vectors)
    vectors = vectors.expand(len(features), k, dim)
    values = Values(critic, features)
    stand_ins = [StandIn(network, critic.scale, features, vectors) for network in critic.networks]
    estimates = torch.stack([stand_in(vectors) for stand_in in stand_ins]).amin(dim=0)  # (batch, k)

    guesses, first = estimates.topk(int(FIRST * k), dim=1)
    found = values(vectors.gather(1, first.unsqueeze(-1).expand(-1, -1, dim)))
    errors = found - guesses
    bar = found.amax(dim=1) - errors.mean(dim=1) - MARGIN * errors.std(dim=1)
    scored = torch.full_like(estimates, -torch.inf).scatter_(1, first, found)

    state, place = ((estimates >= bar.unsqueeze(1)) & scored.isneginf()).nonzero(as_tuple=True)
    scored[state, place] = values(vectors[state, place].unsqueeze(1), state).squeeze(1)
    value, place = scored.max(dim=1)
    return Best(place, value, estimates.mean(dim=1))


class StandIn:
    """A network with straight lines for most of its units, fitted in each state to a sample of its candidates."""

    def __init__(self, network: QNetwork, scale: VectorScale, features: Tensor, vectors: Tensor) -> None:
        places = torch.linspace(0, vectors.shape[1] - 1, SAMPLE, device=vectors.device).long()
        self._sample = vectors[:, places]  # (batch, sample, dim)
        self._stages: list[Stage] = []
        # What reaches a layer is offset + slope . inputs: (batch, width), (batch, width, dim).
        self._offset, self._slope = scale.fold(*network.affine(*network.state_parts(features)))
        bend: nn.Module = nn.Identity()
        for layer in network.rest:
            if isinstance(layer, nn.LayerNorm):
                self._normalise(layer)
            elif isinstance(layer, nn.Linear):
                self._straighten(bend, layer)
            else:
                bend = layer

    def __call__(self, vectors: Tensor) -> Tensor:
        """About the network's values of k actions per state (batch, k, dim): (batch, k)."""
        found = vectors.new_empty(vectors.shape[:2])
        for states, candidates in blocks(found, BLOCK):
            part = vectors[states, candidates]
            for stage in self._stages:
                part = stage(part, states)
            found[states, candidates] = self._offset[states] + torch.linalg.vecdot(part, self._slope[states])
        return found

    def _then(self, stage: Stage) -> None:
        self._stages.append(stage)
        self._sample = stage(self._sample, slice(None))

    def _straighten(self, bend: nn.Module, layer: nn.Linear) -> None:
        """Pass the units' lines on to the next layer, with the units that bend most as further inputs."""
        offset, slope = self._offset, self._slope
        line, level, bent = _fit(bend, torch.baddbmm(offset.unsqueeze(1), self._sample, slope.transpose(1, 2)))
        keep = (bent * layer.weight.square().sum(dim=0)).topk(min(KEPT, bent.shape[1]), dim=1).indices
        line, level = line.scatter(1, keep, 0.0), level.scatter(1, keep, 0.0)
        kept_offset = offset.gather(1, keep).unsqueeze(1)
        kept_slope = slope.gather(1, keep.unsqueeze(-1).expand(-1, -1, slope.shape[2])).transpose(1, 2)

        def stage(inputs: Tensor, states: slice) -> Tensor:
            return torch.cat([bend(torch.baddbmm(kept_offset[states], inputs, kept_slope[states])), inputs], dim=2)

        self._then(stage)
        lines = F.linear((line.unsqueeze(1) * slope.transpose(1, 2)).flatten(0, 1), layer.weight)  # (batch * dim, next)
        lines = lines.view(len(line), -1, layer.out_features)
        self._slope = torch.cat([layer.weight.t()[keep], lines], dim=1).transpose(1, 2)
        self._offset = layer(level + line * offset)

    def _normalise(self, layer: nn.LayerNorm) -> None:
        """The normalised layer is as linear as before in other inputs: (inputs, 1) over their deviation."""
        whole = torch.cat([self._slope, self._offset.unsqueeze(-1)], dim=2)  # (batch, width, dim + 1)
        whole = whole - whole.mean(dim=1, keepdim=True)
        squares = whole.transpose(1, 2) @ whole / whole.shape[1]

        def stage(inputs: Tensor, states: slice) -> Tensor:
            inputs = F.pad(inputs, (0, 1), value=1.0)
            variance = ((inputs @ squares[states]) * inputs).sum(dim=-1, keepdim=True)
            return inputs / (variance.clamp_min_(0) + layer.eps).sqrt_()

        self._then(stage)
        self._slope = layer.weight.unsqueeze(-1) * whole
        self._offset = layer.bias.expand_as(self._offset)


def _fit(bend: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each state and unit the straight line nearest to the activation on a sample (batch, sample, width) of its
    inputs: slope and level (batch, width), and the mean squared distance that is left.
    """
    y = bend(x)
    mean_x, mean_y = x.mean(dim=1), y.mean(dim=1)
    together = (x * y).mean(dim=1) - mean_x * mean_y
    line = together / _variance(x, mean_x).clamp_min(torch.finfo(x.dtype).tiny)
    return line, mean_y - line * mean_x, _variance(y, mean_y) - line * together


def _variance(x: Tensor, mean: Tensor) -> Tensor:
    """Over the second axis; torch's own `var` is 20 times slower there, and rounding does no harm to a stand-in."""
    return x.square().mean(dim=1) - mean.square()
