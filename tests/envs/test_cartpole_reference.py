"""The stored reference of the cart-pole, and the controllers it is made by."""

import itertools
import json

import numpy as np
import pytest

from benchmarks.learning import cartpole_planner as planner
from benchmarks.learning.cartpole_control import FeedbackController, regulator
from benchmarks.learning.cartpole_reference import (
    EVALUATION_STARTS,
    RESULT,
    PlanController,
    both_ways,
    find_plan,
    make_env,
    play,
)
from benchmarks.learning.cartpole_twin import push
from wolpertinger.envs.cartpole import HALF_TRACK, MAX_FORCE, MAX_STEPS, POLE_LENGTHS, Plant
from wolpertinger.envs.cartpole_reference import reference_return


@pytest.fixture(scope="module")
def stored():
    return json.loads(RESULT.read_text())


def test_the_reference_is_the_mean_of_the_stored_returns(stored):
    best, feedback = stored["best_returns"], stored["feedback"]["returns"]
    assert len(best) == len(feedback) == stored["starts"] == EVALUATION_STARTS
    assert reference_return() == stored["mean_return"] == np.mean(best)
    assert all(low <= high <= MAX_STEPS for low, high in zip(feedback, best, strict=True))


def test_force_levels_cost_the_plans_nothing(stored):
    plans = stored["plans"]
    assert plans["mean_return"] == plans["mean_return_with_continuous_forces"]


def test_the_feedback_controller_gets_the_stored_returns(stored):
    env = make_env(3)
    returns = play(FeedbackController(np.array([plant.length for plant in env.plants])), env)
    assert returns.tolist() == stored["feedback"]["returns"][:3]


def test_a_plan_from_one_candidate_beats_feedback_in_the_environment(stored):
    env = make_env(1)
    plan = find_plan(both_ways(env)[0], np.random.default_rng(0), candidates=1)
    (planned,) = play(PlanController([plan]), env)
    assert planned == MAX_STEPS - plan.lost
    assert stored["feedback"]["returns"][0] < planned <= stored["best_returns"][0]


@pytest.mark.parametrize("length", POLE_LENGTHS)
def test_the_regulator_holds_every_corner_of_rest_for_a_whole_episode(length):
    gain, _ = regulator(length)
    plant = Plant()
    plant.set_pole(length)
    for corner in itertools.product((-1, 1), repeat=4):
        plant.set_state(*(corner * planner.REST))
        for _ in range(MAX_STEPS):
            force = -gain @ np.concatenate([plant.data.qpos, plant.data.qvel])
            assert plant.push(np.clip(force, -MAX_FORCE, MAX_FORCE)) == 1


@pytest.mark.parametrize(("state", "force"), [((0.3, 3.0, 0.0, 0.1), 10.0), ((1.5, 2.5, 3.0, -4.0), 10.0)])
def test_the_twin_moves_as_mujoco_does_also_at_the_ends_of_the_track(state, force):
    plant, twin, reached = Plant(), np.array(state), 0.0
    plant.set_pole(0.7)
    plant.set_state(*state)
    for t in range(150):
        now = force * (-1) ** (t // 60)
        plant.push(now)
        twin = push(twin, np.array(now), plant.length)
        reached = max(reached, abs(plant.data.qpos[0]))
        np.testing.assert_allclose(twin, [*plant.data.qpos, *plant.data.qvel], atol=1e-9)
    assert reached > HALF_TRACK


def test_bang_bang_forces_switch_within_a_step():
    (forces,) = planner.bang_bang(np.array([[1.5, 2.0]]), steps=5)
    np.testing.assert_allclose(forces, [10, 0, -10, 0, 10])


def test_the_linear_programs_derivative_is_that_of_the_states():
    cart = planner.Cart(np.array([0.2, 3.0, 0.0, 0.1]), 0.8)
    forces = np.random.default_rng(0).uniform(-9, 9, size=30)
    states, _ = cart.run(forces, 30)
    G = planner.sensitivity(*planner.linearise(states, forces, cart.length))
    change = 1e-4 * np.random.default_rng(1).normal(size=30)
    moved, _ = cart.run(forces + change, 30)
    np.testing.assert_allclose(moved - states, G @ change, atol=1e-8)
