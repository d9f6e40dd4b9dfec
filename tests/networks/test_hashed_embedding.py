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
