"""The arithmetic of a step, counted by hand."""

import pytest

from benchmarks.speed.flops import Networks

# Three numbers in a state, two in an action; layers of 4 and 5.
SMALL = Networks(features=3, dim=2, actor=(4, 5), critic=(4, 5))
STATE, ACTION, REST = 2 * 3 * 4, 2 * 2 * 4, 2 * (4 * 5 + 5 * 1)
PROPOSAL = 2 * (3 * 4 + 4 * 5 + 5 * 2)


def test_the_states_part_counts_once_for_all_candidates():
    assert SMALL.rank(states=7, k=10) == 7 * (STATE + 10 * (ACTION + REST))


def test_a_step_is_a_choice_a_target_and_two_gradients():
    target = 6 * PROPOSAL + SMALL.rank(6, 10)
    critic = 6 * (2 * (STATE + ACTION + REST) + REST)  # forward; backward for weights, and for inputs but the first
    through_critic = (STATE + ACTION + REST) + (ACTION + REST)  # forward; backward down to the action
    through_actor = PROPOSAL + PROPOSAL + (PROPOSAL - 2 * 3 * 4)
    update = target + critic + 6 * (through_critic + through_actor)
    assert SMALL.update(batch=6, k=10) == update
    assert SMALL.step(batch=6, k=10) == update + PROPOSAL + SMALL.rank(1, 10)
    assert SMALL.update(6, 10, gradient_at="action") == update + SMALL.rank(6, 10)


def test_interaction_doubles_the_first_layer_and_critics_multiply_all():
    assert Networks(3, 2, (4, 5), (4, 5), interaction=True).rank(1, 1) == 2 * (STATE + ACTION) + REST
    assert Networks(3, 2, (4, 5), (4, 5), critics=2).rank(1, 1) == 2 * (STATE + ACTION + REST)


def test_the_recommenders_update_is_what_the_issue_says():
    flops = Networks(20, 20, (400, 300), (400, 300)).rank(64, 656)
    assert flops == pytest.approx(10.8e9, rel=0.01)
