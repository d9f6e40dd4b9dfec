"""What a user needs to see of a training run, averaged between two writes of the log."""

from collections import defaultdict

from stable_baselines3.common.logger import Logger
from torch import Tensor

from wolpertinger.actions import ActionSet, ActionTable
from wolpertinger.agent.clock import Clock
from wolpertinger.agent.policy import Choice

SATURATED = 0.97  # |tanh| beyond which its gradient is below 6 %


class Diagnostics:
    """Running means of tensors, summed where they are and read only when the log is written."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: defaultdict[str, int] = defaultdict(int)

    def add(self, **values: Tensor) -> None:
        for name, value in values.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
            self._counts[name] += 1

    def add_choice(self, choice: Choice, unit: Tensor) -> None:
        """One acting step: the choice made, and the actor's output in [-1, 1] before noise."""
        self.add(
            q_chosen=choice.value.mean(),
            q_candidates=choice.q.mean(),
            proto_distance=(choice.vector - choice.proto).norm(dim=-1).mean(),
            reranked=(choice.best != 0).float().mean(),
            actor_saturation=(unit.abs() > SATURATED).float().mean(),
        )

    def record(self, logger: Logger, clock: Clock, actions: ActionSet, k: int) -> None:
        """Write the means since the last call, the seconds spent in each part of the work, and the lookup's recall."""
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
