"""Nearest-neighbour and inner-product search over a table of vectors."""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Index, as_array, check_ids, check_k, check_queries, check_vectors, read_ids
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss import FaissIndex
from wolpertinger.index.inner import InnerProductIndex, largest_products
from wolpertinger.index.monitor import LookupStats
from wolpertinger.index.store import Store, as_store
from wolpertinger.index.tune import BUILD_SECONDS, Tuner, check_recall
from wolpertinger.index.tuned import TunedIndex
from wolpertinger.index.tuning_run import Trial, TuningResult
from wolpertinger.settings import check_number, show

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
    "as_array",
    "build",
    "check_ids",
    "check_k",
    "check_queries",
    "check_vectors",
    "largest_products",
    "read_ids",
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
        accepted = 'give "exact", "auto" or a FAISS recipe such as "IVF256,Flat"'
        raise TypeError(f"index={show(index)} is not a name: {accepted}")
    if recall is not None:
        check_recall(recall)
    check_number("build_seconds", build_seconds, most=math.inf)
    store = as_store(vectors)
    if index == "exact" or (index is None and recall is None):
        return ExactIndex(store)
    if index not in (None, "auto") and recall is None:
        return FaissIndex(store, index, built=(built or {}).get(index))
    recipe = None if index == "auto" else index
    target = AUTO_RECALL if recall is None else recall
    return TunedIndex(store, target, recipe=recipe, build_seconds=build_seconds, built=built)
