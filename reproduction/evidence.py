"""What the results say about a claim: a number, its interval and a verdict."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from reproduction.plan import Variant
from reproduction.results import Result, Results
from reproduction.statistics import Estimate, Reals, estimate

HOLDS, FAILS, OPEN, MISSING = "holds", "does not hold", "not decided", "missing"
WARM_UP = 1_000  # steps before the first update, where a result does not say
LEAST_SEEDS = 3  # for a verdict about learning


class MissingError(LookupError):
    """A result that a claim needs is not there."""


@dataclass(frozen=True)
class Finding:
    """A verdict and what it rests on."""

    measured: str
    verdict: str
    note: str = ""


class Evidence:
    """The results of variants by key; what is not there is `MissingError`."""

    def __init__(self, results: Results, variants: dict[str, Variant]) -> None:
        self._found = {key: results.of(variant) for key, variant in variants.items()}
        self._seeds = {key: variant.seeds for key, variant in variants.items()}
        self.asked: set[str] = set()
        """Keys that were asked for; clear it as you like."""

    def results(self, key: str) -> list[Result]:
        """Of all seeds that have one, at least one."""
        self.asked.add(key)
        if not self._found[key]:
            raise MissingError(key)
        return self._found[key]

    def has(self, key: str) -> bool:
        """Whether any of its seeds has a result."""
        return bool(self._found[key])

    def lacking(self, key: str) -> int:
        """How many of the planned seeds have no result."""
        return self._seeds[key] - len(self._found[key])

    def shares(self, key: str) -> list[float]:
        """Of the optimum, or of the best that is known: each seed's mean over the last fifth of its training.

        Not its best checkpoint: variants that are looked at more often would have more tries.
        """
        return [statistics.fmean(late(result["curve"])) for result in self.results(key)]

    def best(self, key: str) -> list[float]:
        """What each seed's best checkpoint is worth."""
        return [result["final"]["share"] for result in self.results(key)]

    def studies(self, key: str) -> list[Result]:
        """Lemma 1 beside each seed's candidates."""
        found = [result["lemma"] for result in self.results(key) if "lemma" in result]
        if not found:
            raise MissingError(key)
        return found

    def steps(self, key: str) -> list[float]:
        """Steps that each seed trained for."""
        return [result["steps"] for result in self.results(key)]

    def rates(self, key: str) -> list[float]:
        """Steps per second: each seed's of a learning run, or the one of a cell."""
        return [result["steps_per_second"] for result in self.results(key)]

    def updates(self, key: str) -> list[float]:
        """About how many updates each seed made: those of its steps after the warm-up."""
        return [_updates(result) for result in self.results(key)]

    def distinct(self, key: str) -> list[float]:
        """The most different actions that each seed's policy took in any evaluation of the last fifth."""
        return [max(late(result["curve"], of="distinct")) for result in self.results(key)]

    def recalls(self, key: str) -> list[tuple[float, float]]:
        """The recall that each lookup promised and the one that was measured in its run, where there was an index."""
        lookups = [each for result in self.results(key) for each in result.get("lookup", [])]
        # Files from before the name was changed call the target a promise.
        return [(each.get("target_recall", each.get("promise")), each["recall"]) for each in lookups]

    def baseline(self, key: str, name: str) -> float:
        """A baseline as a share of the best."""
        baselines = self.results(key)[0]["baselines"]
        return baselines[name] / next(iter(baselines.values()))


def _updates(result: Result) -> float:
    spec = result["spec"]
    agent = spec["agent"]
    trained = result["steps"] - agent.get("learning_starts", WARM_UP)
    return max(0.0, trained / spec["n_envs"] / agent.get("train_freq", 1) * agent.get("gradient_steps", 1))


def late(curve: dict[str, list[float]], part: float = 0.2, of: str = "share") -> list[float]:
    """The shares, or something else, over the last part of a run's seconds."""
    after = (1 - part) * curve["seconds"][-1]
    return [share for share, seconds in zip(curve[of], curve["seconds"], strict=True) if seconds >= after]


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def times(value: float) -> str:
    return f"{value:,.0f} times" if value >= 100 else f"{value:.2g} times" if value < 10 else f"{value:.0f} times"


def points(value: float) -> str:
    return f"{100 * value:+.1f} points"


def text(found: Estimate, unit: Callable[[float], str]) -> str:
    """A number with its interval, if it has one."""
    bounds = f" [{unit(found.low)}, {unit(found.high)}]" if np.isfinite([found.low, found.high]).all() else ""
    return f"{unit(found.value)}{bounds}"


def judge(found: Estimate, least: float = -np.inf, most: float = np.inf, *, seeds: int = LEAST_SEEDS) -> str:
    """Whether a number lies between `least` and `most`: not decided if its interval lies neither in nor out."""
    if found.seeds < seeds:
        return OPEN
    if least <= found.low and found.high <= most:
        return HOLDS
    return FAILS if found.high < least or found.low > most else OPEN


def compare(
    *samples: Sequence[float],
    of: Callable[..., Reals],
    unit: Callable[[float], str],
    least: float = -np.inf,
    most: float = np.inf,
    note: str = "",
) -> Finding:
    """The finding that `of` the samples lies between `least` and `most`."""
    found = estimate(*samples, of=of)
    return Finding(text(found, unit), judge(found, least, most), note)


def cell(
    value: float, unit: Callable[[float], str], least: float = -np.inf, most: float = np.inf, note: str = ""
) -> Finding:
    """The finding of one measured speed, which has no seeds."""
    return Finding(unit(value), HOLDS if least <= value <= most else FAILS, note)
