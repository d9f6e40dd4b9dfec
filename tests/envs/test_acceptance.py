"""Acceptance against a dense matrix that says the same."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from wolpertinger.envs import Acceptance

N = 23


def random_sparse(n, density, rng):
    return sp.random_array(
        (n, n), density=density, random_state=rng, data_sampler=lambda size: rng.uniform(0, 0.4, size)
    ).tocsr()


def dense_twin(sparse, base, weight):
    twin = np.outer(weight, base)
    np.fill_diagonal(twin, 0)
    return twin + sparse.toarray()


def draw(kind, seed=0):
    """(sparse, base, weight) of a kind of matrix, and its dense twin."""
    rng = np.random.default_rng(seed)
    sparse = random_sparse(N, 0.0 if "empty" in kind else 0.3, rng).tolil()
    if "rows" in kind:
        sparse[[0, 7, N - 1]] = 0  # first, middle and last row store nothing
    if "diagonal" in kind:
        sparse.setdiag(rng.uniform(0.1, 0.9, N))
    if "below" in kind:
        sparse[3, :] = -0.01  # stored, and less likely than the base rate says
        sparse[3, 3] = 0
    base = rng.uniform(0.02, 0.5, N) if "base" in kind else np.zeros(N)
    weight = rng.uniform(0.5, 1.2, N) if "weight" in kind else np.ones(N)
    sparse = sparse.tocsr()
    return (sparse, base, weight), dense_twin(sparse, base, weight)


KINDS = [
    "sparse",
    "empty",
    "empty base",
    "sparse rows",
    "sparse diagonal",
    "sparse base",
    "sparse base rows weight",
    "sparse base weight diagonal",
    "sparse base weight below",
]


@pytest.fixture(params=KINDS)
def pair(request):
    given, dense = draw(request.param)
    return Acceptance(*given), dense


def test_at_is_the_entry_for_scalars_arrays_and_broadcasts(pair):
    acceptance, dense = pair
    i, j = np.indices((N, N))
    assert acceptance.at(4, 5) == pytest.approx(dense[4, 5])
    assert acceptance.at(4, 5).shape == ()
    np.testing.assert_allclose(acceptance.at(i.ravel(), j.ravel()), dense.ravel())
    np.testing.assert_allclose(acceptance.at(np.arange(N)[:, None], np.arange(N)), dense)
    np.testing.assert_allclose(acceptance.at([1, 2], 3), dense[[1, 2], 3])
    np.testing.assert_allclose(acceptance.at(i.astype(np.uint8), j.astype(np.int32)), dense)


def test_rows_are_dense_rows(pair):
    acceptance, dense = pair
    states = [5, 0, 7, 5, N - 1]
    np.testing.assert_allclose(acceptance.rows(states), dense[states])


def test_products_means_and_the_diagonal_are_those_of_the_dense_matrix(pair):
    acceptance, dense = pair
    x = np.random.default_rng(1).normal(size=N)
    np.testing.assert_allclose(acceptance.dot(x), dense @ x, atol=1e-14)
    np.testing.assert_allclose(acceptance.column_means(), dense.mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(acceptance.diagonal(), np.diag(dense))


GAINS = {
    "positive": lambda rng: rng.uniform(0.1, 2, N),
    "mixed": lambda rng: rng.normal(size=N),
    "one positive": lambda rng: np.where(np.arange(N) == 6, 1.0, -1.0),
    "zero": lambda rng: np.zeros(N),
    "ones": lambda rng: np.ones(N),
}


@pytest.mark.parametrize("gain", GAINS)
def test_best_is_the_maximum_over_every_item(pair, gain):
    acceptance, dense = pair
    gain = GAINS[gain](np.random.default_rng(2))
    values, items = acceptance.best(gain)
    np.testing.assert_allclose(values, (dense * gain).max(axis=1), atol=1e-15)
    np.testing.assert_allclose(dense[np.arange(N), items] * gain[items], values, atol=1e-15)


@pytest.mark.parametrize("seed", range(20))
def test_best_holds_on_small_matrices_where_the_corner_cases_are_likely(seed):
    rng = np.random.default_rng(seed)
    n = 3
    sparse = random_sparse(n, 0.5, rng)
    base, weight, gain = rng.uniform(0, 0.3, n), rng.uniform(0, 1, n), rng.normal(size=n)
    gain[rng.integers(n)] = 0.5
    dense = dense_twin(sparse, base, weight)
    values, items = Acceptance(sparse, base, weight).best(gain)
    np.testing.assert_allclose(values, (dense * gain).max(axis=1), atol=1e-15)
    np.testing.assert_allclose(dense[np.arange(n), items] * gain[items], values, atol=1e-15)


@pytest.mark.parametrize("m", [1, 4, N])
def test_top_lists_the_largest_best_first(pair, m):
    acceptance, dense = pair
    gain = np.random.default_rng(3).uniform(0.1, 2, N)
    top = acceptance.top(gain, m)
    assert top.shape == (N, m)
    assert all(len(set(row)) == m for row in top.tolist())
    found = np.take_along_axis(dense * gain, top, axis=1)
    np.testing.assert_allclose(found, -np.sort(-dense * gain, axis=1)[:, :m], atol=1e-15)


@pytest.mark.parametrize("kind", ["sparse", "sparse base weight", "sparse diagonal"])
def test_scaled_hits_the_median_and_keeps_the_relation(kind):
    given, dense = draw(kind)
    scaled = Acceptance(*given).scaled(0.2)
    twin = scaled.rows(np.arange(N))
    assert np.median(twin.max(axis=1)) == pytest.approx(0.2)
    np.testing.assert_allclose(twin, dense * 0.2 / np.median(dense.max(axis=1)), atol=1e-15)


def test_scaled_clips_at_1():
    dense = np.array([[0, 0.9, 0.01], [0.2, 0, 0.1], [0.05, 0.2, 0]])
    scaled = Acceptance(dense).scaled(0.8)
    np.testing.assert_allclose(scaled.rows([0, 1, 2]), np.minimum(4 * dense, 1))


def test_scaled_says_what_it_cannot_do():
    acceptance = Acceptance(np.eye(3) * 0.2, base=[0.1, 0, 0])
    for median_best in (0, -1, 1.5):
        with pytest.raises(ValueError, match=r"median_best=.*: give a finite number above 0, 1 at most"):
            acceptance.scaled(median_best)
    with pytest.raises(ValueError, match="median of the rows' best chances is 0"):
        Acceptance(sp.csr_array((4, 4))).scaled(0.5)
    lopsided = Acceptance(np.eye(3) * 0.2, base=[0.5, 0, 0], weight=[1, 0.1, 0.1])
    with pytest.raises(ValueError, match=r"would lift a base rate to 2\.5"):
        lopsided.scaled(1.0)


def test_of_reads_dense_sparse_and_tuples():
    (sparse, base, weight), dense = draw("sparse base weight")
    every = np.arange(N)
    for given in (dense, dense.tolist(), sp.csr_array(dense), sp.coo_matrix(dense), sp.csc_array(dense), (dense,)):
        np.testing.assert_allclose(Acceptance.of(given).rows(every), dense)
    np.testing.assert_allclose(Acceptance.of((sparse, base, weight)).rows(every), dense)
    np.testing.assert_allclose(Acceptance.of((sparse, base)).rows(every), dense_twin(sparse, base, np.ones(N)))
    acceptance = Acceptance.of(dense)
    assert Acceptance.of(acceptance) is acceptance


def test_pairs_given_twice_add_up():
    acceptance = Acceptance(sp.coo_array(([0.1, 0.2, 0.3], ([0, 0, 1], [1, 1, 0])), shape=(2, 2)))
    np.testing.assert_allclose(acceptance.rows([0, 1]), [[0, 0.3], [0.3, 0]])


def test_the_users_matrix_is_left_alone_and_copied():
    matrix = sp.csr_array((np.array([0.2, 0.1, 0.3]), np.array([2, 1, 0]), np.array([0, 2, 3, 3])), shape=(3, 3))
    acceptance = Acceptance(matrix)
    np.testing.assert_array_equal(matrix.indices, [2, 1, 0])
    matrix.data[:] = 0.9
    np.testing.assert_allclose(acceptance.dot(np.ones(3)), [0.3, 0.3, 0])


@pytest.mark.parametrize("chances", [np.zeros((2, 3)), np.zeros((1, 1)), np.zeros(4), sp.csr_array((3, 2))])
def test_what_is_not_a_square_matrix_is_refused(chances):
    with pytest.raises(ValueError, match=r"acceptance has shape .*: give a square matrix of at least 2 items"):
        Acceptance.of(chances)


@pytest.mark.parametrize(
    "given",
    [
        (np.full((2, 2), 1.2),),
        (np.full((2, 2), -0.1),),
        (np.full((2, 2), 0.6), [0.6, 0.6]),
        (np.zeros((2, 2)), [1.5, 0]),
        (np.zeros((2, 2)), [-0.1, 0]),
        (np.zeros((2, 2)), [0.5, 0], [3, 1]),
    ],
)
def test_chances_out_of_range_are_refused(given):
    with pytest.raises(ValueError, match=r"acceptance holds chances between .*: give numbers in \[0, 1\]"):
        Acceptance.of(given)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_numbers_that_are_not_finite_are_refused(bad, part):
    given = [np.zeros((2, 2)), np.zeros(2), np.ones(2)]
    given[part].flat[1] = bad
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=r"not finite: give chances in \[0, 1\]"):
        Acceptance(*given)


def test_a_base_or_weight_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"base has shape \(3,\): give one number for each of the 2 items"):
        Acceptance(np.zeros((2, 2)), base=[0, 0, 0])
    with pytest.raises(ValueError, match=r"weight has shape \(\): give one number for each of the 2 items"):
        Acceptance(np.zeros((2, 2)), weight=0.5)
    with pytest.raises(ValueError, match="acceptance is a tuple of 4"):
        Acceptance.of((np.zeros((2, 2)),) * 4)


@pytest.mark.parametrize("layout", ["random", "popular columns", "band", "first columns"])
def test_pairs_are_found_at_full_size_whatever_their_layout(layout):
    n, m, rng = 13_138, 20, np.random.default_rng(0)
    rows = np.repeat(np.arange(n), m)
    columns = {
        "random": lambda: rng.integers(n, size=n * m),
        "popular columns": lambda: (n * rng.random(n * m) ** 4).astype(int),
        "band": lambda: (rows + np.tile(np.arange(1, m + 1), n)) % n,
        "first columns": lambda: np.tile(np.arange(m), n),
    }[layout]()
    sparse = sp.csr_array((np.full(n * m, 0.01), (rows, columns)), shape=(n, n))
    tracemalloc.start()
    acceptance = Acceptance(sparse)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6  # a dense one takes 1,381e6
    entries = sparse.tocoo()
    np.testing.assert_allclose(acceptance.at(entries.row, entries.col), entries.data)
    i, j = rng.integers(n, size=(2, 2_000))
    np.testing.assert_allclose(acceptance.at(i, j), [sparse[pair] for pair in zip(i, j, strict=True)])
