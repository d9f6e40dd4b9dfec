"""What a user needs to see of a training run, averaged between two writes of the log."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from stable_baselines3.common.logger import Logger
from torch import Tensor

from wolpertinger.actions import ActionSet
from wolpertinger.policy import Policy, Ranking
from wolpertinger.settings import check_number

SATURATED = 0.97  # |tanh| beyond which its gradient is below 6 %
STEPS_AT_ONCE = 100  # of acting
VALUED_EVERY = 17  # steps of acting without a choice, where nobody else needs the values; few episodes are as long

# What is logged of acting: the tensor without which a step tells nothing of it, and how it follows from all of them.
MEANS: dict[str, tuple[str, Callable[[dict[str, Tensor]], Tensor]]] = {
    "q_chosen": ("value", lambda seen: seen["value"]),
    "q_candidates": ("mean", lambda seen: seen["mean"]),
    "reranked": ("is_nearest", lambda seen: 1 - seen["is_nearest"].float()),
    "proto_distance": ("vector", lambda seen: (seen["vector"] - seen["proto"]).norm(dim=-1)),
    "actor_saturation": ("unit", lambda seen: (seen["unit"].abs() > SATURATED).float()),
}


class Diagnostics:
    """Running means of tensors, summed where they are and read only when the log is written."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._unvalued = VALUED_EVERY  # steps since values were seen
        self._begin()

    def _begin(self) -> None:
        self._acting: defaultdict[str, list[Tensor]] = defaultdict(list)
        self._steps = 0

    def add(self, values: dict[str, Tensor]) -> None:
        """One value of each name."""
        self._add(1, values)

    def _add(self, count: int, totals: dict[str, Tensor]) -> None:
        for name, total in totals.items():
            self._sums[name] = self._sums[name] + total if name in self._sums else total
            self._counts[name] += count

    def add_acting(self, ranking: Ranking, unit: Tensor | None) -> None:
        """One acting step: what was ranked, and the actor's output in [-1, 1] before noise, if anyone asked it."""
        # Tensors of one row cost what an operation costs, so a hundred steps are averaged at once: 3 times as fast.
        seen = {"unit": unit}
        # Where there was no choice nobody has asked the critic, which the log does now and then.
        is_valued = ranking.candidates.only is None or self._unvalued >= VALUED_EVERY - 1
        if is_valued:
            seen |= {"value": ranking.values[:, 0], "mean": ranking.mean, "is_nearest": ranking.is_nearest}
            seen |= {} if unit is None else {"vector": ranking.vectors[:, 0], "proto": ranking.states.proto}
        for name, tensor in seen.items():
            if tensor is not None:
                self._acting[name].append(tensor)
        self._unvalued = 0 if is_valued else self._unvalued + 1
        self._steps += 1
        if self._steps == STEPS_AT_ONCE:
            self._add_acting()

    def _add_acting(self) -> None:
        seen = {name: torch.cat(tensors) for name, tensors in self._acting.items()}
        for name, (source, value) in MEANS.items():
            if source in seen:
                steps = len(self._acting[source])
                self._add(steps, {name: steps * value(seen).mean()})
        self._begin()

    def state_dict(self) -> dict[str, Any]:
        """Sums and counts since the log was last written."""
        self._add_acting()
        return {"sums": self._sums, "counts": dict(self._counts), "unvalued": self._unvalued}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        sums = {name: torch.as_tensor(total) for name, total in state["sums"].items()}
        if sums.keys() != state["counts"].keys() or any(total.dim() for total in sums.values()):
            raise ValueError(f"sums of {', '.join(sums)}, counts of {', '.join(state['counts'])}")
        for count in (*state["counts"].values(), state["unvalued"]):
            check_number("counts", count, whole=True)
        self._sums, self._counts, self._unvalued = sums, defaultdict(int, state["counts"]), state["unvalued"]

    def merge(self, state: dict[str, Any]) -> None:
        """Add what others have seen, as their `state_dict` gives it."""
        for name, total in state["sums"].items():
            self._add(state["counts"][name], {name: total})

    def record(self, logger: Logger, policy: Policy, actions: ActionSet) -> None:
        """Write the means since the last call, the seconds of each section, and what the lookup says of itself."""
        self._add_acting()
        for name, total in self._sums.items():
            logger.record(f"train/{name}", (total / self._counts[name]).item())
        if "q_chosen" not in self._sums:  # so short a row: the next one is to have it
            self._unvalued = VALUED_EVERY
        self._sums, self._counts = {}, defaultdict(int)
        for name, seconds in policy.timer.seconds.items():
            logger.record(f"time/{name}", seconds)
        for name, number in policy.source.stats().items():
            logger.record(f"candidates/{name}", number)
        for name, fact in actions.stats(min(policy.k, actions.n)).items():
            logger.record(f"lookup/{name}", fact, exclude="tensorboard" if isinstance(fact, str) else None)
