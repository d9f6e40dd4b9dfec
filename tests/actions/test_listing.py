"""All actions of a set, block by block."""

import numpy as np
import pytest

from wolpertinger import ActionProduct, ActionTable
from wolpertinger.actions import can_list, list_actions

LEVELS = [np.arange(3.0), np.arange(2.0), np.arange(4.0)]


@pytest.mark.parametrize("size", [1, 5, 24, 100])
def test_every_action_comes_once_in_blocks(size):
    table = ActionTable(np.random.default_rng(0).normal(size=(24, 3)))
    table.remove([3, 23])
    product = ActionProduct(LEVELS)
    for actions in (table, product, product.with_space("multidiscrete")):
        blocks = list(list_actions(actions, size))
        assert all(0 < len(block) <= size for block in blocks)
        found = np.concatenate(blocks)
        assert len(found) == actions.n
        assert len(np.unique(found, axis=0)) == actions.n
        assert all(actions.space.contains(action) for action in found)
    np.testing.assert_array_equal(np.concatenate(list(list_actions(table, size))), table.ids)


def test_what_can_be_listed():
    assert can_list(ActionTable(np.eye(3)))
    assert can_list(ActionProduct([[0.0, 1.0]] * 20, space="multidiscrete"))
    assert not can_list(ActionProduct([[0.0, 1.0]] * 100))
