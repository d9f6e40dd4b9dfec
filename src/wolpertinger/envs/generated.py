"""A seeded random catalogue: W has the two irregularities that the paper names, and vectors show part of it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from wolpertinger.envs.acceptance import Acceptance, Array, Ids
from wolpertinger.envs.catalogue import Catalogue
from wolpertinger.settings import check_memory, check_number

# Of chances and rewards: a processor's own exp and matrix products differ in the last bits, which rounding removes.
DECIMALS = 6
BYTES_PER_ITEM = 16_000  # of its relevant ones, and of a block of distances to it


@dataclass(frozen=True)
class GeneratorSettings:
    """Parameters of the generator. A changed number changes every result on generated tasks."""

    latent: int = 6
    """Dimensions of the taste that decides what is accepted."""
    per_category: int = 80
    """Items in a category. Users of one category move on to another one: no linear map follows them all."""
    spread: float = 0.5
    """Standard deviation of items around their category's centre, per dimension; that of the centres is 1."""
    keeps: float = 1.0
    """Share of the present item's offset from its category's centre that users look for in the next category."""
    reach: float = 0.35
    """Width, per dimension of taste, of the kernel by which chances fall with the distance from what users want."""
    luck: tuple[float, float] = (12.0, 4.0)
    """Beta distribution of a random factor of each pair's chance, which no vector shows."""
    relevant: int = 40
    """Items that a user might accept at all beyond the base rate."""
    top_chance: float = 1.0
    """Chance of an item exactly as wanted, before the pair's random factor."""
    base_rate: float = 0.002
    """Chance that any user accepts any item..."""
    hits: float = 0.02
    """...but for this share of items, good in many states (the paper's first irregularity)..."""
    hit_rate: float = 0.10
    """...which any user accepts with about this chance."""
    particular: float = 0.1
    """Share of states with one particular item, rarely used elsewhere (the paper's second irregularity)."""
    reward_spread: float = 0.3
    """Standard deviation of the rewards' logarithm; their median is 1."""
    blur: float = 0.2
    """Noise on the vectors relative to the taste they show: they carry the structure only in part."""


def generate(items: int, dim: int, *, seed: int = 0, settings: GeneratorSettings | None = None) -> Catalogue:
    """Draw a catalogue; the same arguments give the same one, on every processor."""
    check_number("items", items, least=10, whole=True)
    check_number("dim", dim, least=1, whole=True)
    check_number("seed", seed, whole=True)
    check_memory(f"items={items:,}, dim={dim:,}", BYTES_PER_ITEM * items + 8 * (4 * items * dim + 3 * dim * dim))
    settings = settings or GeneratorSettings()
    rng = np.random.default_rng(seed)
    taste, wanted = _tastes(items, settings, rng)
    chances = _chances(taste, wanted, settings, rng)
    base = np.full(items, settings.base_rate)
    hits = rng.choice(items, size=max(1, round(settings.hits * items)), replace=False)
    base[hits] = settings.hit_rate * rng.uniform(0.5, 1.5, size=hits.size)
    chances.data = np.minimum(chances.data, 1 - base.max())
    rewards = rng.lognormal(0, settings.reward_spread, size=items).round(DECIMALS)
    return Catalogue(Acceptance(chances, base), rewards, _vectors(taste, dim, settings, rng))


def draw_categories(items: int, settings: GeneratorSettings, rng: np.random.Generator) -> Ids:
    """Draw the category of each item, as `generate` does first."""
    return rng.integers(max(2, round(items / settings.per_category)), size=items)


def _tastes(items: int, settings: GeneratorSettings, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw the taste of each item, and the taste that a user at it wants next."""
    category = draw_categories(items, settings, rng)
    n_categories = max(2, round(items / settings.per_category))
    centres = rng.normal(size=(n_categories, settings.latent))
    offset = settings.spread * rng.normal(size=(items, settings.latent))
    follows = rng.permutation(n_categories)
    return centres[category] + offset, centres[follows[category]] + settings.keeps * offset


def _chances(taste: Array, wanted: Array, settings: GeneratorSettings, rng: np.random.Generator) -> sp.csr_array:
    """Draw the chances beyond the base rate: of the relevant items of each state, and of the particular ones."""
    items, relevant = len(taste), min(settings.relevant, len(taste) - 1)
    near, distance = _nearest_others(wanted, taste, relevant)
    fit = np.exp(-distance / (2 * settings.latent * settings.reach**2))
    chance = (settings.top_chance * fit * rng.beta(*settings.luck, size=near.shape)).round(DECIMALS)

    states = rng.choice(items, size=round(settings.particular * items), replace=False)
    special = rng.permutation(items)[: states.size]
    states, special = states[states != special], special[states != special]
    lifted = rng.uniform(0.5, 0.9, size=states.size)

    rows = np.concatenate([np.repeat(np.arange(items), relevant), states])
    columns = np.concatenate([near.ravel(), special])
    # Where a particular item is relevant anyway, the sum may pass 1: the caller caps it.
    return sp.csr_array((np.concatenate([chance.ravel(), lifted]), (rows, columns)), shape=(items, items))


def _nearest_others(queries: Array, points: Array, m: int, block: int = 512) -> tuple[Ids, Array]:
    """Return for each query the m nearest points except the one with its own number, and their squared distances.

    In the order of their numbers: that of `argpartition` depends on numpy's SIMD level, and that of distances may
    depend on their last bits.
    """
    near = np.empty((len(queries), m), dtype=np.int64)
    distance = np.empty((len(queries), m))
    for start in range(0, len(queries), block):
        rows = np.arange(start, min(start + block, len(queries)))
        squared = (queries[rows] ** 2).sum(1)[:, None] - 2 * queries[rows] @ points.T + (points**2).sum(1)
        squared[np.arange(rows.size), rows] = np.inf
        near[rows] = np.sort(np.argpartition(squared, m - 1, axis=1)[:, :m], axis=1)
        distance[rows] = np.take_along_axis(squared, near[rows], axis=1)
    return near, distance


def _vectors(taste: Array, dim: int, settings: GeneratorSettings, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return the taste in a random basis of `dim` dimensions, with noise, scaled to a root mean square of 1."""
    size = max(dim, taste.shape[1])
    frame, _ = np.linalg.qr(rng.normal(size=(size, size)))
    vectors = taste @ frame[: taste.shape[1], :dim]
    vectors += settings.blur * vectors.std() * rng.normal(size=vectors.shape)
    return (vectors / np.sqrt((vectors**2).mean())).astype(np.float32)
