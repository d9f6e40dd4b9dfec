"""New items: what a part of a catalogue is, and how shares are taken."""

import numpy as np
import pytest

from benchmarks.learning.new_items import (
    KEPT,
    choose_items,
    make_shop,
    measure,
    share,
    share_of_new,
    share_of_step,
    train,
)
from wolpertinger.envs.catalogue import load_catalogue
from wolpertinger.runs import make_config
from wolpertinger.runs.presets import merge


@pytest.fixture(scope="module")
def shop():
    return make_shop(0, items=60, new=10, leaving=20)


def test_some_items_keep_their_chances_rewards_and_vectors():
    whole, items = load_catalogue(items=60), np.array([7, 3, 40])
    part = choose_items(whole, items)
    expected = whole.acceptance.rows(items)[:, items]
    np.testing.assert_allclose(part.acceptance.rows(np.arange(3)), expected, atol=1e-12)
    np.testing.assert_array_equal(part.rewards, np.asarray(whole.rewards)[items])
    np.testing.assert_array_equal(part.vectors, np.asarray(whole.vectors)[items])


def test_the_parts_of_a_shop(shop):
    assert (len(shop.old), len(shop.new), len(shop.kept)) == (50, 10, 40)
    assert not np.isin(shop.model_of_old.optimum.policy, shop.new).any()
    assert np.isin(shop.model.optimum.policy, shop.new).any()


def test_the_best_policy_has_a_share_of_1_and_another_one_less(shop):
    model, best = shop.model, shop.model.optimum.policy
    assert share(model, best) == share(model, best, shop.new) == share_of_step(model, best, shop.old) == 1
    other = np.where(np.arange(60) < 50, best, (best + 1) % 60)  # wrong in the new states
    assert share(model, other, shop.new) < share(model, other, shop.old) < 1
    assert share_of_step(model, other, shop.old) == 1
    found = share_of_new("added", model, np.full(60, shop.new[0]), shop.new)
    assert found["added: new chosen"] == 1 > found["added: new chosen by the best"] > 0


def test_an_agent_of_the_old_items_is_measured_on_the_rest(shop):
    changes = {"learning_starts": 64, "batch_size": 32, "buffer_size": 1_000}
    config = make_config("recommender", steps=3_200, n_envs=32, changes=merge(changes, KEPT))
    found = measure(train(shop.of(shop.old), config), shop)
    assert all(0 <= value <= 1 for how in found.values() for value in how.values())
    for name in ("seen states", "seen states, one step"):  # but for items that were hardly tried
        assert found["with"][name] == pytest.approx(found["without"][name], abs=0.1)
