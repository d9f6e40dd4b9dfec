"""The best combinations of levels by a factored critic: each factor is searched by itself, A is never enumerated."""

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from wolpertinger.actions import ActionSet, Allowed
from wolpertinger.actions.allowed_levels import AllowedLevels
from wolpertinger.actions.factor import Digits, Reals
from wolpertinger.actions.fold import cheapest_allowed, cheapest_combinations
from wolpertinger.networks import Critic
from wolpertinger.policy.candidates import Candidates, RaggedCandidates
from wolpertinger.policy.sources import CandidateSource
from wolpertinger.policy.states import States
from wolpertinger.settings import Settings


@dataclass(frozen=True)
class BestByFactor(Settings):
    """The k combinations of levels that a factored critic values most in all of A, exactly."""

    kind: ClassVar[str] = "factors"
    needs_actor: ClassVar[bool] = False

    def __call__(self, actions: ActionSet, critic: Critic) -> CandidateSource:
        return FactorSearch(actions, critic)


class FactorSearch(CandidateSource):
    """The best level of each factor, and for k > 1 the k largest sums of levels (several critics: by their mean)."""

    needs_actor = False
    finds_all = True

    def __init__(self, actions: ActionSet, critic: Critic) -> None:
        super().__init__(actions, critic)
        if not all(hasattr(network, "utilities") for network in critic.networks):
            raise ValueError('candidates="factors" needs a critic that is a sum over factors: give critic="factored"')
        self._network: Any = critic.networks[0]
        self._numbers = torch.tensor([number for group in self._network.groups for number in group.numbers]).argsort()
        self._has_ids = isinstance(actions.space, spaces.Discrete)
        sizes = [len(own) for own in self._network.levels]
        places = [prod(sizes[after:]) for after in range(1, len(sizes) + 1)]
        self._place_values = torch.tensor(places) if self._has_ids else None

    @torch.no_grad()
    def find(self, states: States, k: int) -> Candidates:
        utilities = self._utilities(states)
        if k == 1:
            pairs = zip(self._network.groups, utilities, strict=True)
            levels = torch.cat([group.best(own) for group, own in pairs], dim=1)
            digits = levels[:, self._numbers.to(levels.device)].unsqueeze(1)
            found = digits if self._place_values is None else digits @ self._place_values.to(digits.device)
        else:
            found = torch.from_numpy(cheapest_combinations(self._costs(utilities), k, has_ids=self._has_ids))
        return Candidates(found.to(states.device), BestByFactor.kind)

    @torch.no_grad()
    def find_allowed(self, states: States, k: int) -> RaggedCandidates:
        if not isinstance(states.allowed, AllowedLevels):
            return super().find_allowed(states, k)
        costs = self._costs(self._utilities(states))

        def cost(rows: Digits, number: int, levels: Digits) -> Reals:
            return np.take_along_axis(costs[number][rows], levels, axis=1)

        return RaggedCandidates(Allowed(cheapest_allowed(cost, k, states.allowed)), (BestByFactor.kind,))

    def _utilities(self, states: States) -> list[Tensor]:
        """Of each group of factors (batch, factors, knots)."""
        features = self.critic.features(states.obs)
        several = [network.utilities(features)[0] for network in self.critic.networks]
        return [torch.stack(parts).mean(dim=0) for parts in zip(*several, strict=True)]

    def _costs(self, utilities: list[Tensor]) -> list[Reals]:
        """Minus the utilities of all levels of each factor (batch, levels)."""
        costs: list[Reals] = [np.empty(0)] * len(self._network.levels)
        for group, own in zip(self._network.groups, utilities, strict=True):
            for place, number in enumerate(group.numbers):
                found = group.find_levels(place, self._network.levels[number].to(own.device))
                costs[number] = -found.read(own[:, [place]])[:, :, 0].double().numpy(force=True)
        return costs
