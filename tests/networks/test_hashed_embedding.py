"""Rows of single vectors, found by a hash of their numbers."""

import numpy as np
import pytest
import torch

from wolpertinger.networks.hashed_embedding import MAX_ROWS, STEP, HashedEmbedding, count_rows

MANY = torch.from_numpy(np.random.default_rng(0).normal(size=(2_000, 20)).astype(np.float32))


def test_hashes_share_rows_no_more_than_chance_does():
    torch.manual_seed(0)
    rows = HashedEmbedding(20, 4_000, 3).row(MANY)
    assert rows.min() >= 0
    assert rows.max() < 4_000
    expected = 4_000 * (1 - (1 - 1 / 4_000) ** 2_000)  # rows in use if each vector drew one
    assert len(rows.unique()) == pytest.approx(expected, abs=4 * 15)  # 15: the standard deviation of such draws


@pytest.mark.parametrize("change", [0.0, STEP / 100, 2 * STEP, -3.0, 1e6])
def test_a_vector_has_the_same_row_again_and_another_one_if_a_number_differs(change):
    torch.manual_seed(0)
    embedding, grid = HashedEmbedding(20, 2**20, 3), (MANY / STEP).round() * STEP
    other = grid.clone()
    other[:, 7] += change
    share = (embedding.row(grid) == embedding.row(other)).float().mean()
    assert share == 1 if abs(change) < STEP else share < 0.01


def test_rows_do_not_depend_on_what_else_is_asked():
    embedding = HashedEmbedding(20, 500, 3)
    one_by_one = torch.stack([embedding.row(vector) for vector in MANY[:50]])
    torch.testing.assert_close(embedding.row(MANY[:50].reshape(5, 10, 20)).flatten(), one_by_one, rtol=0, atol=0)


@pytest.mark.parametrize(("rows", "expected"), [(70, 70), (0.5, 500), (8.0, 8_000), (1e-9, 0), (0, 0)])
def test_rows_are_a_count_or_so_many_times_the_actions(rows, expected):
    assert count_rows("action_embedding", rows, 1_000) == expected


@pytest.mark.parametrize("rows", [-1, -0.5, "many", True, None, float("nan"), float("inf"), MAX_ROWS + 1, 1e300])
def test_rows_that_cannot_be_are_refused(rows):
    with pytest.raises(ValueError, match=r"action_embedding=.* with 1,000 actions: give rows, a whole number from 0"):
        count_rows("action_embedding", rows, 1_000)


def learned(**settings):
    """An embedding that has learned of the first 100 vectors, whose rows are one number each."""
    torch.manual_seed(0)
    embedding = HashedEmbedding(20, 2**20, 3, scale=2.0, **settings)
    with torch.no_grad():
        embedding.rows[embedding.row(MANY[:100])] = torch.arange(1.0, 101.0).unsqueeze(1)
    embedding(MANY[:100])
    return embedding.eval()


def test_a_new_vector_takes_the_mean_row_of_its_neighbours(monkeypatch):
    embedding = learned(neighbours=3)
    monkeypatch.setattr("wolpertinger.networks.hashed_embedding.DISTANCES_AT_ONCE", 250)  # two vectors at a time
    torch.testing.assert_close(embedding(MANY[:100]), learned()(MANY[:100]), rtol=0, atol=0)  # what is known stays
    distances = ((MANY[100:120, None].double() - MANY[None, :100].double()) ** 2).sum(dim=-1).numpy()
    expected = 2.0 * (1 + np.argsort(distances, axis=1)[:, :3]).mean(axis=1)
    found = embedding(MANY[95:120].reshape(5, 5, 20)).reshape(25, 3)
    np.testing.assert_allclose(found[5:].detach().numpy(), np.repeat(expected[:, None], 3, axis=1), rtol=1e-5)


def test_with_fewer_vectors_than_neighbours_all_count_and_without_any_there_are_zeros():
    assert (HashedEmbedding(20, 50, 3, neighbours=4).eval()(MANY) == 0).all()
    np.testing.assert_allclose(learned(neighbours=500)(MANY[200:202]).detach(), 2 * 50.5, rtol=1e-5)


def test_optimism_raises_the_last_output_and_falls_with_what_is_learned_from():
    embedding, plain = learned(optimism=0.6), learned()
    for _ in range(4):
        embedding.train()(MANY[:1])
    raised = embedding.eval()(MANY[:120]) - plain(MANY[:120])
    assert (raised[:, :-1] == 0).all()
    expected = [0.6 / 6, *[0.6 / 2] * 99, *[0.6] * 20]
    np.testing.assert_allclose(raised[:, -1].detach(), expected, atol=2e-5)


def test_only_what_is_learned_from_counts():
    embedding = HashedEmbedding(20, 50, 3, neighbours=2, optimism=1.0)
    embedding.eval()(MANY)
    with torch.no_grad():
        embedding.train()(MANY)
    assert embedding.tries.sum() == 0
    embedding(MANY.reshape(40, 50, 20))
    assert embedding.tries.sum() == len(MANY)
