"""Nearest-neighbour and inner-product search over a table of vectors."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Index, check_ids, check_k, check_queries, check_vectors
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss import FaissIndex
from wolpertinger.index.inner import InnerProductIndex, largest_products
from wolpertinger.index.monitor import LookupStats
from wolpertinger.index.store import Store, as_store
from wolpertinger.index.tune import BUILD_SECONDS, Tuner, check_recall
from wolpertinger.index.tuned import TunedIndex
from wolpertinger.index.tuning_run import Trial, TuningResult

__all__ = [
    "ExactIndex",
    "FaissIndex",
    "Ids",
    "Index",
    "InnerProductIndex",
    "LookupStats",
    "Store",
    "Trial",
    "TunedIndex",
    "Tuner",
    "TuningResult",
    "build",
    "check_ids",
    "check_k",
    "check_queries",
    "check_vectors",
    "largest_products",
]

AUTO_RECALL = 0.99  # target of "auto" without a recall


def build(
    index: str | None,
    vectors: npt.ArrayLike | Store,
    *,
    recall: float | str | None = None,
    build_seconds: float = BUILD_SECONDS,
    built: Mapping[str, npt.NDArray[np.uint8]] | None = None,
) -> Index:
    """Return an index over `vectors` (n, dim): "exact", a FAISS recipe, or "auto": the fastest that reaches `recall`.

    With a recipe and a recall, the search parameters of that recipe are tuned. None is "auto" with a recall, else
    "exact". `built` are serialised FAISS indexes by recipe.
    """
    if index is not None and not isinstance(index, str):
        raise TypeError(f'index={index!r} is not a name: give "exact", "auto" or a FAISS recipe such as "IVF256,Flat"')
    if recall is not None:
        check_recall(recall)
    store = as_store(vectors)
    if index == "exact" or (index is None and recall is None):
        return ExactIndex(store)
    if index not in (None, "auto") and recall is None:
        return FaissIndex(store, index, built=(built or {}).get(index))
    recipe = None if index == "auto" else index
    target = AUTO_RECALL if recall is None else recall
    return TunedIndex(store, target, recipe=recipe, build_seconds=build_seconds, built=built)
