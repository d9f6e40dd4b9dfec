"""Re-ranking with a fraction of the arithmetic and, all but always, the same choice.

A cheaper stand-in for the critic estimates the values of all candidates. Those that can still win, by its estimates and
their errors, are then scored by the critic itself. There are two kinds:

On machines with instructions for them, the critic itself in 8-bit products (eight_bit.py).

On others, and for vectors of few numbers, straight lines. The candidates of a state lie close together: among them most
units of the critic are nearly linear, and what they pass on is a linear function of their own inputs, however many they
are. The few units of each layer that bend most are kept, and straight lines stand for the others. What these cannot see
are units that only one action switches on: a critic makes them for actions that it saw often. Those are favourites,
which win in many states, so actions that won of late are scored in any case.

How often the choice agrees is measured: docs/performance.md.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wolpertinger.agent import eight_bit
from wolpertinger.agent.networks import Critic, QNetwork, VectorScale
from wolpertinger.agent.rerank import Best, Values, blocks, exact, in_full, networks_in, pack

LEAST = 256  # candidates of a state, and ...
IN_ALL = 4096  # ... of all states: fewer are scored as fast as they are screened (one state of 656: 2.9 against 3.8 ms)
# Vectors: wider ones cost more to screen than it saves (200 numbers, time over exact: lines 0.8 to 2, 8 bits 1.4).
WIDEST = 64
SAMPLE = 32  # of a state's candidates, on which its lines are fitted
KEPT = 32  # units per state and layer that stay as they are
NARROWEST = 4  # vectors, for which lines do well whatever the machine
# Share of the candidates, those with the largest estimates, that the critic scores in any case: of estimates by 8-bit
# products, of those by lines. Of 8-bit estimates 0.02 takes 0.6 ms more for 64 x 656 (throw-away); with a float32 first
# layer it missed 1 of the 65,536 choices in docs/performance.md, as does this with one in 8 bits (2 in a run before).
ROUNDED, FIRST = 0.0125, 0.07
FEWEST = 8  # of them, to tell the errors by
# Standard deviations of the estimates' errors by which a candidate must fall short to be out: at first of the errors of
# those with the largest estimates, then of all that were scored. Of a critic with units for single items (Complete
# Journey, 200 updates), 5 deviations at first and no second time missed 16 of 4,096 choices and scored 21 % of the
# candidates, 6 missed 5 and scored 28 %, 7 missed 3 and scored 36 %; 4 and then 5 missed 4 and scored 25 %, 4 and then
# 5.5 missed 2 and scored 30 %. Where lines fit well (generated, 600 updates), all of these score 11 to 14 %. Errors of
# 8-bit products are much alike, and few are scored before the second time: once is enough, and saves 1 ms of 64 x 656.
LINE_MARGINS, ROUNDED_MARGINS = (4.0, 5.5), (5.5,)
BLOCK = 2048  # candidates estimated together
REMEMBERED = 4096  # choices of training among which an action must be ...
WINS = 2  # ... so often to be a favourite
FAVOURED = 0.15  # of k: at most so many favourites, those that won most

Stage = Callable[[Tensor, slice], Tensor]


@in_full
def screened(
    critic: Critic, features: Tensor, vectors: Tensor, favourites: Callable[[], Tensor | None] = lambda: None
) -> Best:
    """As `exact`, by the values of only those actions that can still win by estimate.

    Straight lines may be blind to some actions, so those that are `favourites` (batch, k) are then scored as well.
    """
    *_, k, dim = vectors.shape
    networks = [network for network in critic.networks if isinstance(network, QNetwork)]
    # Actions that all states share lie all over the place, where no lines fit: all 13,138 took 2.3 times as long.
    fits_lines = vectors.dim() == 3
    has_bits = not (fits_lines and dim <= NARROWEST) and all(eight_bit.can_use(network.rest) for network in networks)
    if k < LEAST or k * len(features) < IN_ALL or dim > WIDEST or not (has_bits or fits_lines):
        return exact(critic, features, vectors)
    values = Values(networks_in(critic, features, list if has_bits else pack), features)  # few are left by 8 bits
    if has_bits:
        estimates = eight_bit.estimate(critic, features, vectors)  # (batch, k)
        scored = _score(values, vectors, estimates, ROUNDED, ROUNDED_MARGINS)
    else:
        stand_ins = [StandIn(network, critic.scale, features, vectors) for network in networks]
        estimates = torch.stack([stand_in(vectors) for stand_in in stand_ins]).amin(dim=0)
        scored = _score(values, vectors, estimates, FIRST, LINE_MARGINS, favourites())
    value, place = scored.max(dim=1)
    return Best(place, value, estimates.mean(dim=1))


def _score(
    values: Values,
    vectors: Tensor,
    estimates: Tensor,
    first: float,
    margins: tuple[float, ...],
    also: Tensor | None = None,
) -> Tensor:
    """Values (batch, k) of the actions whose estimate is among the largest, a share `first` of them, or can still win,
    and of those that `also` says; -inf for the others.
    """
    is_shared = vectors.dim() == 2
    largest = estimates.topk(max(FEWEST, int(first * estimates.shape[1])), dim=1).indices
    places = largest.unsqueeze(-1).expand(-1, -1, vectors.shape[-1])
    found = values(vectors[largest] if is_shared else vectors.gather(1, places))
    scored = torch.full_like(estimates, -torch.inf).scatter_(1, largest, found)

    def score(wanted: Tensor) -> bool:
        state, place = (wanted & scored.isneginf()).nonzero(as_tuple=True)
        if len(state):
            chosen = vectors[place] if is_shared else vectors[state, place]
            scored[state, place] = values(chosen.unsqueeze(1), state).squeeze(1)
        return len(state) > 0

    errors = found - estimates.gather(1, largest)
    mean, deviation = errors.mean(dim=1), errors.std(dim=1, correction=0)
    has_more = also is not None and score(also)
    for number, margin in enumerate(margins):
        if number and has_more:
            mean, deviation = _moments(scored - estimates, ~scored.isneginf())
        deviation = deviation.clamp_min(deviation.median())  # a state's own best may happen to be all alike
        has_more |= score(estimates >= (scored.amax(dim=1) - mean - margin * deviation).unsqueeze(1))
    return scored


def _moments(values: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (batch,) of those values (batch, k) that are `known`."""
    counts, values = known.sum(dim=1), values.where(known, 0.0)
    mean = values.sum(dim=1) / counts
    return mean, ((values - mean.unsqueeze(1)).square().where(known, 0.0).sum(dim=1) / counts).sqrt()


class Favourites(nn.Module):
    """The actions that won in training of late. Saved with the policy, whose choices depend on them."""

    recent: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("recent", torch.full((REMEMBERED,), -1))
        self._known: tuple[Tensor, int, Tensor] | None = None  # what follows from `recent`, in which state

    def add(self, actions: Tensor) -> None:
        """Remember ids (batch,) that were chosen; actions that are digits are not."""
        if actions.dim() == 1:
            self.recent = torch.cat([self.recent, actions])[-REMEMBERED:]

    def among(self, actions: Tensor) -> Tensor | None:
        """Which of these actions (..., k) are favourites; None if none can be."""
        if self._known is None or self._known[0] is not self.recent or self._known[1] != self.recent._version:
            ids, wins = torch.unique(self.recent, return_counts=True)
            often = (wins >= WINS) & (ids >= 0)
            self._known = self.recent, self.recent._version, ids[often][wins[often].argsort(descending=True)]
        known = self._known[2][: int(FAVOURED * actions.shape[-1])].sort().values
        if len(known) == 0:
            return None
        places = torch.searchsorted(known, actions.contiguous()).clamp_(max=len(known) - 1)
        return known[places] == actions


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
            found[states, candidates] = (part @ self._slope[states].transpose(1, 2)).squeeze(-1)
        return found.add_(self._offset)

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
            kept = torch.baddbmm(kept_offset[states], inputs, kept_slope[states])
            return torch.cat([kept.relu_() if type(bend) is nn.ReLU else bend(kept), inputs], dim=2)

        self._then(stage)
        self._slope = torch.cat([layer.weight.t()[keep], _combine(layer.weight, line, slope)], dim=1).transpose(1, 2)
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


def _combine(weight: Tensor, line: Tensor, slope: Tensor) -> Tensor:
    """Slopes (batch, dim, next) of the next layer's inputs, whose weights are (next, width), through all the lines."""
    if len(weight) == 1:
        return slope.transpose(1, 2) @ (line * weight).unsqueeze(-1)
    lines = (line.unsqueeze(1) * slope.transpose(1, 2)).flatten(0, 1)  # one product for all states
    return F.linear(lines, weight).view(len(line), -1, len(weight))


def _fit(bend: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each state and unit the straight line nearest to the activation on a sample (batch, sample, width) of its
    inputs: slope and level (batch, width), and the mean squared distance that is left.
    """
    y = bend(x.clone())  # it may work in place
    mean_x, mean_y = x.mean(dim=1), y.mean(dim=1)
    together = (x * y).mean(dim=1) - mean_x * mean_y
    # Where the inputs are all but the same, both are differences of rounded numbers: no line, rather than any.
    rounding = 16 * torch.finfo(x.dtype).eps * mean_x.square() + torch.finfo(x.dtype).tiny
    variance = _variance(x, mean_x)
    line = torch.where(variance > rounding, together / variance, 0.0)
    return line, mean_y - line * mean_x, _variance(y, mean_y) - line * together


def _variance(x: Tensor, mean: Tensor) -> Tensor:
    """Over the second axis; torch's own `var` is 20 times slower there, and rounding does no harm to a stand-in."""
    return x.square().mean(dim=1) - mean.square()
