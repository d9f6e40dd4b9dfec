"""Nearest neighbours over a table of vectors."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from wolpertinger.index.base import Ids, Index, check_ids, check_k, check_queries, check_vectors
from wolpertinger.index.exact import ExactIndex
from wolpertinger.index.faiss import FaissIndex
from wolpertinger.index.inner import InnerProductIndex, largest_products
from wolpertinger.index.promise import Health, PromisedIndex
from wolpertinger.index.store import Store, as_store
from wolpertinger.index.trials import Trial, Tuning
from wolpertinger.index.tune import BUILD_SECONDS, Tuner, check_recall

__all__ = [
    "ExactIndex",
    "FaissIndex",
    "Health",
    "Ids",
    "Index",
    "InnerProductIndex",
    "PromisedIndex",
    "Store",
    "Trial",
    "Tuner",
    "Tuning",
    "build",
    "check_ids",
    "check_k",
    "check_queries",
    "check_vectors",
    "largest_products",
]


AUTO_RECALL = 0.99  # what "auto" promises when no recall is given


def build(
    index: str | None,
    vectors: npt.ArrayLike | Store,
    *,
    recall: float | str | None = None,
    build_seconds: float = BUILD_SECONDS,
    built: Mapping[str, npt.NDArray[np.uint8]] | None = None,
) -> Index:
    """An index over `vectors` (n, dim): "exact", a FAISS recipe, or "auto": whatever keeps `recall` fastest.

    With a recipe and a recall, the settings of that recipe are tuned. None is "auto" with a recall, else "exact".
    `built` are indexes by recipe that were built before.
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
    promise = AUTO_RECALL if recall is None else recall
    return PromisedIndex(store, promise, recipe=recipe, build_seconds=build_seconds, built=built)
