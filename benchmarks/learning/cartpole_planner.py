"""Plans that bring a pole upright in the fewest steps, for a known start: sequential linear programming.

A search over bang-bang forces in the numpy twin gives rough plans. For a wanted step, a linear program about a plan
then finds the change that least violates the goal's bounds from that step on. It is carried out in MuJoCo, where
feedback keeps to the states the program predicts. The wanted step moves up until there is a plan, then down as far as
there is one.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks.learning.cartpole_control import FORCE_COST, STATE_COSTS, regulator
from benchmarks.learning.cartpole_twin import Array, push
from wolpertinger.envs.cartpole import HALF_GOAL, MAX_FORCE, MAX_STEPS, Plant

GOAL = np.array([HALF_GOAL, math.radians(5)])  # largest cart position and angle with reward
REST = np.array([0.08, math.radians(1.5), 0.1, 0.1])  # largest state at a plan's end: the regulator holds it from there
MARGIN, SPARE = 1e-4, 1e-3  # shares of the bounds that a plan must keep free, and that the linear program keeps free
TAIL = 60  # steps of a plan after the wanted one
LATEST = 150  # step by which a plan must have the pole upright

SEGMENTS, POPULATION, ELITE, ROUNDS = 6, 600, 8, 12  # of the bang-bang search
ARRIVALS = range(50, 93, 7)  # between two of these steps the pole comes upright: a niche of the search


class Cart:
    """One start, with upright as angle 0, in MuJoCo. `sign` is -1 if it is the mirror image of the real one."""

    def __init__(self, state: Array, length: float, sign: int = 1) -> None:
        self.state, self.length, self.sign = state, length, sign
        self.gain, self.cost_to_go = regulator(length)
        self.plant = Plant()
        self.plant.set_pole(length)

    def run(self, forces: Array, steps: int) -> tuple[Array, Array]:
        """States (steps + 1, 4) and forces (steps) of a plan that the regulator continues."""
        return self._drive(steps, lambda t, state: float(forces[t] if t < len(forces) else -self.gain @ state))

    def follow(self, forces: Array, states: Array, gains: Array) -> tuple[Array, Array]:
        """States and forces where feedback keeps the cart to the given states."""
        return self._drive(len(forces), lambda t, state: forces[t] - gains[t] @ (state - states[t]))

    def _drive(self, steps: int, force: Callable[[int, Array], float]) -> tuple[Array, Array]:
        states, forces = [self.state], []
        self.plant.set_state(*self.state)
        for t in range(steps):
            forces.append(min(MAX_FORCE, max(-MAX_FORCE, float(force(t, states[-1])))))
            self.plant.push(forces[-1])
            states.append(np.concatenate([self.plant.data.qpos, self.plant.data.qvel]))
        return np.array(states), np.array(forces)

    def steps_lost(self, forces: Array) -> int:
        """Steps of the episode without reward."""
        states, _ = self.run(forces, MAX_STEPS)
        return int((np.abs(states[1:, :2]) > GOAL).any(axis=1).sum())


@dataclass
class Plan:
    """Forces for a cart, and the steps of the episode without reward."""

    cart: Cart
    forces: Array
    lost: int

    def track(self) -> tuple[Array, Array, Array]:
        """Forces, states, and the gains of the feedback that keeps to them (`Cart.follow`)."""
        states, forces = self.cart.run(self.forces, len(self.forces))
        gains = tracking_gains(*linearise(states, forces, self.cart.length), self.cart.cost_to_go)
        return forces, states, gains


def search(cart: Cart, rng: np.random.Generator) -> list[tuple[float, Array]]:
    """Score (less is better) and forces of bang-bang plans, one for each time of arrival and first direction.

    An evolution of the switching times that keeps an elite in each of these niches.
    """
    durations = rng.exponential(12, size=(4 * POPULATION, SEGMENTS))
    durations[::2, 0] = 0  # half of them push the other way first
    for spread in 6 * 0.8 ** np.arange(ROUNDS):
        forces = bang_bang(durations, ARRIVALS[-1])
        distances = _distances_to_upright(cart, forces)
        elites = [rows[np.argsort(distances[rows, span].min(axis=1))[:ELITE]] for rows, span in _niches(durations)]
        parents = durations[rng.choice(np.concatenate(elites), size=POPULATION)]
        change = spread * rng.random((POPULATION, 1)) * rng.normal(size=parents.shape)
        change[parents[:, 0] == 0, 0] = 0
        best = [(rows[0], span) for rows, (_, span) in zip(elites, _niches(durations), strict=True)]
        durations = np.concatenate([durations[np.concatenate(elites)], np.maximum(0, parents + change)])
    arrivals = [(row, span.start + int(distances[row, span].argmin())) for row, span in best]
    return [(t + 100 * distances[row, t], forces[row, : t + 1]) for row, t in arrivals]


def _niches(durations: Array) -> Iterator[tuple[npt.NDArray[np.int64], slice]]:
    for first, last in pairwise(ARRIVALS):
        for other_way in (False, True):
            yield np.flatnonzero((durations[:, 0] == 0) == other_way), slice(first, last)


def _distances_to_upright(cart: Cart, forces: Array) -> Array:
    """Root of the regulator's cost-to-go after each step (n, steps), in radians."""
    states, costs = np.tile(cart.state, (len(forces), 1)), np.empty(forces.shape)
    for t in range(forces.shape[1]):
        states = push(states, forces[:, t], cart.length)
        costs[:, t] = np.einsum("ni,ij,nj->n", states, cart.cost_to_go, states)
    return np.sqrt(costs / cart.cost_to_go[1, 1])


def bang_bang(durations: Array, steps: int) -> Array:
    """Forces (n, steps) that change sign after each duration (n, segments); where that is within a step, their mean."""
    ends = np.cumsum(durations, axis=1)[:, :, None]  # (n, segments, 1)
    after = np.clip(np.arange(1, steps + 1) - ends, 0, 1)  # share of each step after each switch
    signs = (-1.0) ** np.arange(durations.shape[1])
    return MAX_FORCE * (1 - 2 * np.einsum("nks,k->ns", after, signs))


def linearise(states: Array, forces: Array, length: float) -> tuple[Array, Array]:
    """A (steps, 4, 4) and B (steps, 4) about a trajectory, by central differences."""
    small = 1e-5
    shifts = small * np.concatenate([np.eye(4), -np.eye(4), np.zeros((2, 4))])
    near = (states[None, :-1] + shifts[:, None]).reshape(-1, 4)
    pushes = np.concatenate([np.tile(forces, 8), forces + small, forces - small])
    after = push(near, pushes, length).reshape(10, len(forces), 4)
    return (after[:4] - after[4:8]).transpose(1, 2, 0) / (2 * small), (after[8] - after[9]) / (2 * small)


def sensitivity(A: Array, B: Array) -> Array:
    """Derivative (steps + 1, 4, steps) of the states by the forces."""
    G = np.zeros((len(B) + 1, 4, len(B)))
    for t in range(len(B)):
        G[t + 1] = A[t] @ G[t]
        G[t + 1, :, t] = B[t]
    return G


def tracking_gains(A: Array, B: Array, P: Array) -> Array:
    """Gains (steps, 4) of the time-varying regulator about a trajectory at whose end the cost-to-go is P."""
    gains, costs = np.empty(B.shape), np.diag(STATE_COSTS)
    for t in reversed(range(len(B))):
        PA, PB = P @ A[t], P @ B[t]
        gains[t] = B[t] @ PA / (FORCE_COST + B[t] @ PB)
        P = costs + A[t].T @ (PA - np.outer(PB, gains[t]))
    return gains


def violation(states: Array, wanted: int) -> float:
    """By how much the states miss the goal from the wanted step on, and rest at the end, in shares of the bounds."""
    goal, rest = np.abs(states[wanted:, :2]) / GOAL, np.abs(states[-1]) / REST
    return float(np.maximum(0, goal - 1 + MARGIN).sum() + np.maximum(0, rest - 1 + MARGIN).sum())


def least_violation(states: Array, forces: Array, G: Array, wanted: int, largest: float) -> tuple[Array, float]:
    """The change of forces, each at most `largest`, that to first order leaves the least violation; and that much."""
    steps = len(forces)
    slopes = np.concatenate([(G[wanted:, :2] / GOAL[:, None]).reshape(-1, steps), G[-1] / REST[:, None]])
    values = np.concatenate([(states[wanted:, :2] / GOAL).ravel(), states[-1] / REST])
    n, bound = len(values), 1 - SPARE
    within = LinearConstraint(np.hstack([slopes, -np.eye(n), np.eye(n)]), -bound - values, bound - values)
    lowest = np.concatenate([np.maximum(-largest, -MAX_FORCE - forces), np.zeros(2 * n)])
    highest = np.concatenate([np.minimum(largest, MAX_FORCE - forces), np.full(2 * n, np.inf)])
    costs = np.repeat([0.0, 1.0], [steps, 2 * n])
    solution = milp(costs, constraints=within, bounds=Bounds(lowest, highest), options={"presolve": False})
    if not solution.success:  # numerical trouble: the pole falls, and all is steep
        return np.zeros(steps), math.inf
    return solution.x[:steps], solution.fun


def fit(cart: Cart, forces: Array, wanted: int, programs: int) -> tuple[Array, float]:
    """Forces that reach the goal by the wanted step, or nearly so; and the violation left."""
    states, forces = cart.run(forces, wanted + TAIL)
    left, largest, G = violation(states, wanted), MAX_FORCE, None
    for _ in range(programs):
        if left == 0 or largest < 0.05:
            break
        if G is None:
            A, B = linearise(states, forces, cart.length)
            G, gains = sensitivity(A, B), tracking_gains(A, B, cart.cost_to_go)
        change, predicted = least_violation(states, forces, G, wanted, largest)
        tried_states, tried = cart.follow(forces + change, states + G @ change, gains)
        tried_left = violation(tried_states, wanted)
        hoped, gained = left - predicted, left - tried_left
        if hoped < 0.01 * left:
            break
        if gained > 0.6 * hoped:
            largest = min(2 * MAX_FORCE, 2 * largest)
        if gained > 0.1 * hoped:
            states, forces, left, G = tried_states, tried, tried_left, None
        else:
            largest /= 3
    return forces, left


def shorten(cart: Cart, forces: Array, plan: Plan) -> Plan:
    """The plan with the fewest steps lost that can be reached from these forces; `plan` itself if that has as few."""
    wanted, left, programs = plan.lost if len(plan.forces) else len(forces), math.inf, 15
    while wanted <= min(plan.lost, LATEST) and left > 0:  # up to the first that works ...
        forces, left = fit(cart, forces, wanted, programs)
        plan = _better(plan, Plan(cart, forces, cart.steps_lost(forces)))
        wanted, programs = wanted + (1 if left < 3 else 2), 6
    while plan.forces is forces:  # ... and down from there
        forces, _ = fit(cart, forces, plan.lost, programs=12)
        plan = _better(plan, Plan(cart, forces, cart.steps_lost(forces)))
    return plan


def _better(plan: Plan, other: Plan) -> Plan:
    return other if other.lost < plan.lost else plan
