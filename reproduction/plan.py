"""Every run that the paper's tables and figures are made of, with its settings in full."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from benchmarks.learning.large_catalogue import LARGE_CATALOGUE
from wolpertinger.runs.config import RunConfig, make_config

LOOKUPS = ("exact", "slow", "medium", "fast")
PLANS = (1, 3, 5, 10, 20)
JOURNEY = {"data": "complete-journey", "dim": 20}
NEAREST: dict[str, Any] = {"task": "recommender", "preset": "nearest"}  # the paper's form, which is not our default


@dataclass(frozen=True)
class Variant:
    """Runs that differ in their seed only."""

    key: str
    kind: str
    """"learning", "speed" (of one cell of a table) or "lemma"."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Of `make_config`."""
    seeds: int = 1
    seconds: float = 10.0
    """Of training in each run."""
    studied: bool = False
    """Whether Lemma 1 is put beside the candidates of its trained critics."""


@dataclass(frozen=True)
class Run:
    """One run, and so one result file."""

    variant: Variant
    seed: int

    @property
    def name(self) -> str:
        return f"{self.variant.key}/seed-{self.seed}"

    def config(self) -> RunConfig:
        """All that a learning or a speed run depends on."""
        return make_config(**self.variant.arguments, seed=self.seed, seconds=self.variant.seconds)

    def spec(self) -> dict[str, Any]:
        """What a result must have been made with to be this run's, in JSON's terms."""
        settings = {} if self.variant.kind == "lemma" else asdict(self.config())
        return {"kind": self.variant.kind, "seed": self.seed, **settings}


@dataclass(frozen=True)
class Scale:
    """How much time the whole is given."""

    name: str
    seeds: int | None = None
    """Instead of each variant's own."""
    seconds: float | None = None
    """Of every learning run, instead of its own."""
    speed_seconds: float | None = None
    """Of every cell of a table, instead of its own."""
    build_seconds: float | None = None
    """The most to spend on building indexes, in every run that has one, instead of its own."""

    def of(self, variant: Variant) -> Variant:
        learns = variant.kind == "learning"
        seconds = self.seconds if learns else self.speed_seconds
        build = {} if self.build_seconds is None else {"build_seconds": self.build_seconds}
        return replace(
            variant,
            arguments={**variant.arguments, **build} if "recall" in variant.arguments else variant.arguments,
            seeds=variant.seeds if self.seeds is None or not learns else self.seeds,
            seconds=variant.seconds if seconds is None else seconds,
        )


FULL = Scale("full")
QUICK = Scale("quick", seeds=1, seconds=12.0, speed_seconds=2.0, build_seconds=5.0)
SCALES = {scale.name: scale for scale in (FULL, QUICK)}


def variants(scale: Scale = FULL) -> dict[str, Variant]:
    """All variants by key, those first that others are compared with."""
    found = (*_recommender(), *_puddle_world(), *_cart_pole(), *_speed(), Variant("lemma/monte-carlo", "lemma"))
    return {variant.key: scale.of(variant) for variant in found}


def runs(chosen: dict[str, Variant]) -> list[Run]:
    """Their runs: the first seed of everything, then the second, so that a sweep that is cut short has all of it."""
    most = max((variant.seeds for variant in chosen.values()), default=0)
    return [Run(variant, seed) for seed in range(most) for variant in chosen.values() if seed < variant.seeds]


def share_name(k: int | float) -> str:
    """k as part of a key: "k-1", "k-5-percent"."""
    return f"k-{k}" if isinstance(k, int) else f"k-{100 * k:g}-percent"


def _recommender() -> Iterator[Variant]:
    sizes: dict[int, dict[str, Any]] = {13_138: {"seeds": 3, "seconds": 300.0}, 835: {"seeds": 3, "seconds": 150.0}}
    for items, effort in sizes.items():
        family = f"recommender-{items}"
        changes = LARGE_CATALOGUE if items == 13_138 else {}
        # Only seconds end these runs: a million steps, the preset's, take k = 1 a fraction of them.
        task = {**NEAREST, "env": {**JOURNEY, "items": items}, "changes": changes, "steps": 10**9}
        for k in (0.05, 1, 0.01, 0.1, 1.0):
            studied = k == 0.05
            yield Variant(f"{family}/{share_name(k)}", "learning", {**task, "k": k}, studied=studied, **effort)
        uniform = {**changes, "exploration": {"guided": 0.0}}
        yield Variant(f"{family}/k-5-percent-uniform", "learning", {**task, "k": 0.05, "changes": uniform}, **effort)
        if items == 13_138:
            for lookup in LOOKUPS[1:]:
                yield Variant(
                    f"{family}/k-5-percent-{lookup}", "learning", {**task, "k": 0.05, "recall": lookup}, **effort
                )
    for dim in (200, 20):
        env = {**JOURNEY, "items": 49, "dim": dim}
        for k in (1, 0.1, 1.0):
            arguments = {**NEAREST, "env": env, "k": k}
            yield Variant(f"recommender-49/dim-{dim}-{share_name(k)}", "learning", arguments, seeds=5, seconds=30.0)


def _puddle_world() -> Iterator[Variant]:
    for plan in reversed(PLANS):
        arguments = {"task": "puddle-world", "env": {"plan": plan}, "k": 1}
        studied = plan == 20
        yield Variant(f"puddle-world-{plan}/k-1", "learning", arguments, seeds=3, seconds=100.0, studied=studied)
    twenty: dict[str, Any] = {"task": "puddle-world", "env": {"plan": 20}}
    yield Variant("puddle-world-20/k-5-percent", "learning", {**twenty, "k": 0.05}, seeds=3, seconds=100.0)
    lossy = {**twenty, "k": 1, "table": True, "recall": "fast"}
    # A table of a million plans is looked up ten times slower than their structure: it gets the time for as many steps.
    yield Variant("puddle-world-20/k-1-fast", "learning", lossy, seeds=3, seconds=300.0)


def _cart_pole() -> Iterator[Variant]:
    task: dict[str, Any] = {"task": "cart-pole", "env": {"levels": 1_000_000}}
    effort: dict[str, Any] = {"seeds": 3, "seconds": 320.0}
    for k in (1, 5_000):
        yield Variant(f"cart-pole/{share_name(k)}", "learning", {**task, "k": k}, **effort)
    for lookup in LOOKUPS[1:]:
        # On a busy machine 20 s were once too short for any index: the levels were scanned, at 21 steps a second.
        build = 60.0 if lookup == "slow" else 20.0
        table = {**task, "k": 1, "table": True, "recall": lookup, "build_seconds": build}
        yield Variant(f"cart-pole/k-1-{lookup}", "learning", table, **effort)


@dataclass(frozen=True)
class SpeedTable:
    """One of the paper's tables of steps per second."""

    env: dict[str, Any]
    n: int
    ks: tuple[int, ...]
    lookups: tuple[str, ...]


SPEED_TABLES = {
    "cart-pole": SpeedTable({"levels": 1_000_000}, 1_000_000, (1, 5_000), LOOKUPS),
    "puddle-world": SpeedTable({"plan": 20}, 1 << 20, (1, 5_242, 1 << 20), ("exact", "medium", "fast")),
    "recommender": SpeedTable({**JOURNEY, "items": 13_138}, 13_138, (1, 131, 656, 1_313, 13_138), LOOKUPS),
}
# The paper's own setting: plain DDPG with 400-300 units, batches of 64, one environment. Nothing is to be learnt.
PLAIN: dict[str, Any] = {
    "preset": "paper",
    "n_envs": 1,
    "steps": 10**9,
    "changes": {"learning_starts": 1_000, "buffer_size": 50_000},
}


def speed_key(task: str, k: int, lookup: str) -> str:
    """The variant behind a cell; where all actions are candidates nothing is looked up, and its cells are one."""
    exact = lookup == "exact" or k == SPEED_TABLES[task].n
    return f"speed-{task}/{share_name(k)}" + ("" if exact else f"-{lookup}")


def _speed() -> Iterator[Variant]:
    for task, table in SPEED_TABLES.items():
        for k in table.ks:
            arguments = {"task": task, "env": table.env, "k": k, **PLAIN}
            for lookup in table.lookups if k < table.n else ("exact",):
                indexed = {"recall": lookup, "table": task != "recommender", "build_seconds": 20.0}
                how = {} if lookup == "exact" else indexed
                yield Variant(speed_key(task, k, lookup), "speed", {**arguments, **how})
            if task != "recommender" and k < table.n:  # as the paper did: our sets of these tasks need no table
                yield Variant(f"{speed_key(task, k, 'exact')}-scan", "speed", {**arguments, "table": True})
