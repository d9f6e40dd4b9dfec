"""What a user needs to see of a training run, averaged between two writes of the log."""

from collections import defaultdict

import torch
from stable_baselines3.common.logger import Logger
from torch import Tensor

from wolpertinger.actions import ActionSet, ActionTable
from wolpertinger.agent.clock import Clock
from wolpertinger.agent.policy import Choice

SATURATED = 0.97  # |tanh| beyond which its gradient is below 6 %
STEPS_AT_ONCE = 100  # of acting


class Diagnostics:
    """Running means of tensors, summed where they are and read only when the log is written."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._acting: list[tuple[Tensor, ...]] = []
        self._nearest: list[Tensor] = []

    def add(self, **values: Tensor) -> None:
        self._add(1, values)

    def _add(self, count: int, totals: dict[str, Tensor]) -> None:
        for name, total in totals.items():
            self._sums[name] = self._sums[name] + total if name in self._sums else total
            self._counts[name] += count

    def add_choice(self, choice: Choice, unit: Tensor | None) -> None:
        """One acting step: the choice made, and the actor's output in [-1, 1] before noise, if anyone asked it."""
        # Tensors of one row cost what an operation costs, so a hundred steps are worked out at once: 3 times as fast.
        proposed = () if unit is None else (choice.vector, choice.proto, unit)
        self._acting.append((choice.value, choice.mean, *proposed))
        if choice.is_nearest is not None:
            self._nearest.append(choice.is_nearest)
        if len(self._acting) == STEPS_AT_ONCE:
            self._add_acting()

    def _add_acting(self) -> None:
        if not self._acting:
            return
        value, mean, *proposed = (torch.cat(column) for column in zip(*self._acting, strict=True))
        means = {"q_chosen": value.mean(), "q_candidates": mean.mean()}
        if proposed:
            vector, proto, unit = proposed
            means["proto_distance"] = (vector - proto).norm(dim=-1).mean()
            means["actor_saturation"] = (unit.abs() > SATURATED).float().mean()
        self._add(len(self._acting), {name: len(self._acting) * mean for name, mean in means.items()})
        if self._nearest:
            share = 1 - torch.cat(self._nearest).float().mean()
            self._add(len(self._nearest), {"reranked": len(self._nearest) * share})
        self._acting, self._nearest = [], []

    def record(self, logger: Logger, clock: Clock, actions: ActionSet, k: int) -> None:
        """Write the means since the last call, the seconds spent in each part of the work, and the lookup's recall."""
        self._add_acting()
        for name, total in self._sums.items():
            logger.record(f"train/{name}", (total / self._counts[name]).item())
        self._sums, self._counts = {}, defaultdict(int)
        for name, seconds in clock.seconds.items():
            logger.record(f"time/{name}", seconds)
        healths = actions.health if isinstance(actions, ActionTable) else []
        for health in (health for health in healths if health.k == k):
            if health.recall is not None:
                logger.record("lookup/recall", health.recall)
            logger.record("lookup/checked", health.checked)
            logger.record("lookup/tunings", health.tunings)
            logger.record("lookup/index", health.index, exclude="tensorboard")
