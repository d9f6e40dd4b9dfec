"""Exploration happens before the lookup, so that whatever is executed is a member of A."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from wolpertinger.actions import ActionSet, Allowed
from wolpertinger.settings import Settings, check_choice, check_flag, check_number

NOISES = ("gaussian", "ornstein-uhlenbeck")


@dataclass(frozen=True)
class Exploration(Settings):
    """How to explore. Noise and epsilon go linearly from their first to their final value."""

    kind: ClassVar[str] = "exploration"
    noise: str | None = "gaussian"
    """On the proto-action: "gaussian", "ornstein-uhlenbeck" (correlated over an episode), or None."""
    sigma: float = 0.1
    """Size of the noise, where 1 is half the range of the actions' vectors in each dimension."""
    final_sigma: float | None = None
    """What sigma goes to; None: it stays."""
    theta: float = 0.15
    """How fast Ornstein-Uhlenbeck noise returns to 0."""
    epsilon: float = 0.0
    """Chance of a random action instead of the policy's."""
    final_epsilon: float | None = None
    """What epsilon goes to; None: it stays."""
    guided: float = 0.0
    """Share of those random actions that is drawn from the subset the environment offers for the current state
    (its `guided_actions()`); the rest is uniform over A."""
    decay: float = 1.0
    """Share of the training after which the final values are reached."""
    ladder: bool = False
    """Spread sigma evenly from its first to its final value over the environments, instead of over the training: some
    explore widely while others show what the policy is worth. Epsilon goes over the training all the same, and so does
    sigma where there is one environment only."""

    def __post_init__(self) -> None:
        check_choice("noise", self.noise, NOISES, optional=True)
        for name in ("epsilon", "guided", "theta"):
            check_number(name, getattr(self, name), most=1)
        check_number("final_epsilon", self.final_epsilon, most=1, optional=True)
        check_number("sigma", self.sigma)
        check_number("final_sigma", self.final_sigma, optional=True)
        check_number("decay", self.decay, above=True, most=1)
        check_flag("ladder", self.ladder)
        if self.ladder and (self.noise is None or self.final_sigma is None):
            raise ValueError("ladder=True: give noise, and final_sigma, where the ladder ends")

    def __call__(self, actions: ActionSet, seed: int | None) -> "Explorer":
        return Explorer(self, actions, seed)


class Explorer:
    """The random process of one agent: `Exploration` with its generator and its state."""

    def __init__(self, spec: Exploration, actions: ActionSet, seed: int | None) -> None:
        self.spec = spec
        self.actions = actions
        self.rng = np.random.default_rng(seed)
        self._drift = np.zeros((0, 0))  # Ornstein-Uhlenbeck noise, one row per environment

    def state_dict(self) -> dict[str, Any]:
        """The generator and the noise, for a run to go on from."""
        return {"random": self.rng.bit_generator.state, "drift": self._drift}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        drift = np.array(state["drift"])
        if drift.ndim != 2 or drift.dtype != np.float64 or not np.isfinite(drift).all():
            raise ValueError(f"noise of type {drift.dtype} and shape {drift.shape}, or not finite")
        self.rng.bit_generator.state = state["random"]
        self._drift = drift

    def _now(self, first: float, final: float | None, progress: float) -> float:
        return first if final is None else first + (final - first) * min(1.0, progress / self.spec.decay)

    def sigma(self, progress: float) -> float:
        return self._now(self.spec.sigma, self.spec.final_sigma, progress)

    def epsilon(self, progress: float) -> float:
        return self._now(self.spec.epsilon, self.spec.final_epsilon, progress)

    def perturb(self, unit: npt.NDArray, progress: float) -> npt.NDArray[np.float32]:
        """Proto-actions in [-1, 1] (batch, dim) with noise on them, still in [-1, 1]."""
        if self.spec.noise is None:
            return unit
        several = len(unit) > 1  # a ladder of one rung would hold the first sigma for ever
        sigma = self._ladder(len(unit)) if self.spec.ladder and several else self.sigma(progress)
        shock = sigma * self.rng.normal(size=unit.shape)
        if self.spec.noise == "ornstein-uhlenbeck":
            if self._drift.shape != unit.shape:
                self._drift = np.zeros_like(unit, dtype=np.float64)
            shock = self._drift = self._drift * (1 - self.spec.theta) + shock
        return np.clip(unit + shock, -1, 1).astype(np.float32)

    def _ladder(self, n: int) -> npt.NDArray[np.float64]:
        """Sigma of each of n environments (n, 1)."""
        assert self.spec.final_sigma is not None
        return np.linspace(self.spec.sigma, self.spec.final_sigma, n)[:, None]

    def reset(self, ended: npt.NDArray[np.bool_]) -> None:
        """Begin the random process anew where an episode ended (line 6 of Algorithm 2)."""
        if len(self._drift) == len(ended):
            self._drift[ended] = 0.0

    def at_random(self, n: int, epsilon: float) -> npt.NDArray[np.bool_]:
        """Which of n environments take a random action, before anyone looks for the policy's (n,)."""
        return self.rng.random(n) < epsilon

    def draw(
        self,
        places: npt.NDArray[np.int64],
        offered: Callable[[npt.NDArray[np.int64]], list[npt.NDArray]],
        allowed: Allowed | None = None,
    ) -> npt.NDArray[np.int64]:
        """Random actions for the environments at `places`, of what they allow; `offered(places)` gives their subsets
        for guided exploration.
        """
        actions = self.actions.sample(self.rng, places.size) if allowed is None else allowed.sample(self.rng)
        guided = np.flatnonzero(self.rng.random(places.size) < self.spec.guided)
        if guided.size:
            for place, subset in zip(guided, offered(places[guided]), strict=True):
                subset = np.asarray(subset)[self.actions.holds(subset)]  # some may have been removed
                if allowed is not None:
                    subset = subset[allowed.rows(slice(place, place + 1)).holds([subset])[0]]
                if len(subset):  # else it stays one of all
                    actions[place] = subset[self.rng.integers(len(subset))]
        return actions
