"""What a user needs to see of a training run, averaged between two writes of the log."""

from collections import defaultdict

import torch
from stable_baselines3.common.logger import Logger
from torch import Tensor

from wolpertinger.actions import ActionSet, ActionTable
from wolpertinger.agent.clock import Clock
from wolpertinger.agent.policy import Choice, Pick

SATURATED = 0.97  # |tanh| beyond which its gradient is below 6 %
STEPS_AT_ONCE = 100  # of acting
VALUED = 16  # one of so many steps at k = 1, where nobody else needs the values


class Diagnostics:
    """Running means of tensors, summed where they are and read only when the log is written."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._unvalued = VALUED  # steps since values were seen
        self._begin()

    def _begin(self) -> None:
        self._proposed: list[tuple[Tensor, ...]] = []
        self._values: list[tuple[Tensor, Tensor]] = []
        self._nearest: list[Tensor] = []
        self._steps = 0

    def add(self, **values: Tensor) -> None:
        self._add(1, values)

    def _add(self, count: int, totals: dict[str, Tensor]) -> None:
        for name, total in totals.items():
            self._sums[name] = self._sums[name] + total if name in self._sums else total
            self._counts[name] += count

    @property
    def want_values(self) -> bool:
        """Whether the next acting step should be one with values, whoever else needs them."""
        return self._unvalued >= VALUED - 1

    def add_pick(self, pick: Pick, unit: Tensor | None) -> None:
        """One acting step: what was picked, and the actor's output in [-1, 1] before noise, if anyone asked it."""
        # Tensors of one row cost what an operation costs, so a hundred steps are worked out at once: 3 times as fast.
        if unit is not None:
            self._proposed.append((pick.vector, pick.proto, unit))
        if isinstance(pick, Choice):
            self._values.append((pick.value, pick.mean))
            if pick.is_nearest is not None:
                self._nearest.append(pick.is_nearest)
        self._unvalued = 0 if isinstance(pick, Choice) else self._unvalued + 1
        self._steps += 1
        if self._steps == STEPS_AT_ONCE:
            self._add_acting()

    def _add_acting(self) -> None:
        if self._values:
            value, mean = (torch.cat(column).mean() for column in zip(*self._values, strict=True))
            self._add_mean(len(self._values), q_chosen=value, q_candidates=mean)
        if self._proposed:
            vector, proto, unit = (torch.cat(column) for column in zip(*self._proposed, strict=True))
            distance, saturation = (vector - proto).norm(dim=-1).mean(), (unit.abs() > SATURATED).float().mean()
            self._add_mean(len(self._proposed), proto_distance=distance, actor_saturation=saturation)
        if self._nearest:
            self._add_mean(len(self._nearest), reranked=1 - torch.cat(self._nearest).float().mean())
        self._begin()

    def _add_mean(self, count: int, **means: Tensor) -> None:
        self._add(count, {name: count * mean for name, mean in means.items()})

    def record(self, logger: Logger, clock: Clock, actions: ActionSet, k: int) -> None:
        """Write the means since the last call, the seconds spent in each part of the work, and the lookup's recall."""
        self._add_acting()
        for name, total in self._sums.items():
            logger.record(f"train/{name}", (total / self._counts[name]).item())
        self._sums, self._counts, self._unvalued = {}, defaultdict(int), VALUED
        for name, seconds in clock.seconds.items():
            logger.record(f"time/{name}", seconds)
        healths = actions.health if isinstance(actions, ActionTable) else []
        for health in (health for health in healths if health.k == k):
            if health.recall is not None:
                logger.record("lookup/recall", health.recall)
            logger.record("lookup/checked", health.checked)
            logger.record("lookup/tunings", health.tunings)
            logger.record("lookup/index", health.index, exclude="tensorboard")
