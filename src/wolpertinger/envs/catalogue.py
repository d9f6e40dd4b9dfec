"""Catalogues of items for the recommender: generated, or from the Complete Journey receipts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from wolpertinger.envs.acceptance import Acceptance
from wolpertinger.settings import check_choice, check_number, show

DATA = ("generated", "complete-journey")


@dataclass(frozen=True)
class Catalogue:
    """Items to recommend: chances of acceptance, rewards, vectors and names."""

    acceptance: Acceptance
    rewards: npt.ArrayLike
    vectors: npt.ArrayLike
    names: Sequence[str] | None = None


def load_catalogue(
    *,
    items: int = 835,
    dim: int = 20,
    data: str = "generated",
    reward: str | None = None,
    median_best: float | None = None,
    data_seed: int = 0,
) -> Catalogue:
    """Load or generate a catalogue of `items` items with `dim`-dimensional vectors.

    `reward` ("price" or "novelty") goes with the Complete Journey. `median_best` scales the chances so that the
    median over states of the best item's chance is this number.
    """
    check_choice("data", data, DATA)
    check_number("data_seed", data_seed, whole=True)
    if data == "generated":
        if reward is not None:
            given = f"reward={show(reward)}"
            raise ValueError(f'{given} goes with data="complete-journey"; generated items bring their own')
        from wolpertinger.envs.generated import generate

        catalogue = generate(items, dim, seed=data_seed)
    else:
        catalogue = _complete_journey(items, dim, reward or "price", data_seed)
    if median_best is None:
        return catalogue
    return Catalogue(catalogue.acceptance.scaled(median_best), catalogue.rewards, catalogue.vectors, catalogue.names)


def _complete_journey(items: int, dim: int, reward: str, seed: int) -> Catalogue:
    from wolpertinger.envs.completejourney import load_complete_journey  # pandas only where it is needed

    found: Any = load_complete_journey(items, dim, reward=reward, seed=seed)
    return Catalogue(Acceptance(found.sparse, found.base, found.weight), found.rewards, found.vectors, found.names)
