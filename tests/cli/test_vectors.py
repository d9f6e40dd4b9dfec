import numpy as np
import pytest

from wolpertinger.cli.vectors import from_file


def test_vectors_from_a_file_are_mapped_and_queries_stay_in_their_box(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    np.save(tmp_path / "mine.npy", vectors)
    mine = from_file(tmp_path / "mine.npy")
    assert mine.name == "mine"
    assert isinstance(mine.vectors.base, np.memmap) or isinstance(mine.vectors, np.memmap)
    queries = mine.queries(100, seed=0)
    assert (queries >= vectors.min(axis=0)).all()
    assert (queries <= vectors.max(axis=0)).all()
    assert len(from_file(tmp_path / "mine.npy", rows=50).vectors) == 50


def test_queries_from_a_file_are_dealt_to_two_seeds(tmp_path):
    np.save(tmp_path / "mine.npy", np.zeros((9, 2)))
    np.save(tmp_path / "asked.npy", np.arange(10.0).reshape(5, 2))
    mine = from_file(tmp_path / "mine.npy", tmp_path / "asked.npy")
    np.testing.assert_array_equal(mine.queries(10, seed=0)[:, 0], [0, 4, 8])
    np.testing.assert_array_equal(mine.queries(1, seed=1), [[2, 3]])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"mine.npy holds an array of shape \(3,\): give \(rows, dim\)"),
        (np.array([["a"]]), "vectors are of type <U1: give a 2-D array of real numbers"),
        (np.array([[object()]]), "mine.npy is no .npy file of numbers"),
    ],
)
def test_a_file_of_the_wrong_kind_is_an_error(array, message, tmp_path):
    np.save(tmp_path / "mine.npy", array, allow_pickle=True)
    with pytest.raises((ValueError, TypeError), match=message):
        from_file(tmp_path / "mine.npy")


def test_a_file_that_is_no_array_is_an_error(tmp_path):
    (tmp_path / "mine.npy").write_text("1,2,3\n")
    with pytest.raises(ValueError, match=r"mine.npy is no .npy file of numbers"):
        from_file(tmp_path / "mine.npy")
    np.savez(tmp_path / "many.npz", a=np.zeros(2))
    with pytest.raises(ValueError, match=r"many.npz is an archive of arrays"):
        from_file(tmp_path / "many.npz")


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (np.zeros((1, 2)), "asked.npy has 1 queries: give at least 2"),
        (np.zeros((4, 3)), r"asked.npy: queries have shape \(4, 3\): give \(batch, 2\)"),
        (np.full((4, 2), np.nan), "asked.npy: queries must be finite"),
    ],
)
def test_queries_that_do_not_fit_are_an_error(queries, message, tmp_path):
    np.save(tmp_path / "mine.npy", np.zeros((9, 2)))
    np.save(tmp_path / "asked.npy", queries)
    with pytest.raises(ValueError, match=message):
        from_file(tmp_path / "mine.npy", tmp_path / "asked.npy")
