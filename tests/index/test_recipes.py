import pytest

from wolpertinger.index.recipes import check_stored
from wolpertinger.index.tune import recipes_for


@pytest.mark.parametrize("n", [1_000, 50_000, 10**6, 10**8])
@pytest.mark.parametrize("dim", [1, 2, 20, 64, 100, 768])
def test_all_that_the_tuner_builds_may_be_in_a_file(n, dim):
    for recipe in recipes_for(n, dim, 10):
        assert check_stored(recipe, n, dim) == recipe


@pytest.mark.parametrize(
    "recipe", ["IVF16,Flat", "HNSW32", "HNSW32,Flat", "IVF4_HNSW8,SQ8", "PQ4", "PQ4x12", "SQfp16,RFlat"]
)
def test_what_users_name_may_be_too(recipe):
    assert check_stored(recipe, 100, 8) == recipe


@pytest.mark.parametrize(
    "recipe", ["LSQ8x8", "OPQ4,IVF8,Flat", "IVF4_HNSW1,Flat", "", "IVF4", "Flat,Flat", "IDMap,Flat", 5, None]
)
def test_other_kinds_are_not_kept(recipe):
    with pytest.raises(ValueError, match=r"is not kept in files|says 1: from 2 to 256"):
        check_stored(recipe, 100, 8)


@pytest.mark.parametrize(
    ("recipe", "match"),
    [
        ("IVF101,Flat", "says 101: from 1 to 100 are read with 100 vectors"),
        ("IVF0,Flat", "says 0: from 1"),
        ("HNSW0", "says 0: from 2 to 256"),
        ("HNSW999", "says 999: from 2 to 256"),
        ("PQ9x4fs", "says 9: from 1 to 8"),
        ("PQ4x24", "says 24: from 1 to 12"),
    ],
)
def test_sizes_are_those_of_the_vectors(recipe, match):
    with pytest.raises(ValueError, match=match):
        check_stored(recipe, 100, 8)
