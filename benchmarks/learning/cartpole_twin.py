"""The cart-pole's physics again in numpy, for thousands of carts at once: what MuJoCo computes, to rounding."""

import numpy as np
import numpy.typing as npt

from wolpertinger.envs.cartpole import HALF_TRACK, POLE_DENSITY, SUBSTEPS

Array = npt.NDArray[np.float64]

GRAVITY, CART = 9.81, 1.0  # m/s^2, kg
TIME_STEP, CART_DAMPING, POLE_DAMPING = 0.01, 0.05, 0.001  # s, N s/m, N m s
# MuJoCo's default soft limit (`solimp`, `solref`), which stops the cart at the track's ends.
IMPEDANCE, WIDTH, TIME_CONSTANT = (0.9, 0.95), 0.001, 0.02


def push(states: Array, forces: Array, length: float) -> Array:
    """States (..., 4: cart, angle and their velocities) after one step of the environment with these forces (...)."""
    for _ in range(SUBSTEPS):
        states = _substep(states, forces, length)
    return states


def _substep(states: Array, forces: Array, length: float) -> Array:
    cart, angle, speed, turn = np.moveaxis(states, -1, 0)
    mass = POLE_DENSITY * length
    lever = mass * length / 2
    total, inertia, coupling = CART + mass, mass * length**2 / 3, lever * np.cos(angle)  # the inertia matrix
    torque = lever * GRAVITY * np.sin(angle) - POLE_DAMPING * turn
    push = forces - CART_DAMPING * speed + lever * np.sin(angle) * turn**2
    if (np.abs(cart) > HALF_TRACK).any():
        free = (inertia * push - coupling * torque) / (total * inertia - coupling**2)
        give = inertia / (total * inertia - coupling**2), inertia / (total * inertia - lever**2)
        push = push + _stop(cart, speed, free, *give)
    total, inertia = total + TIME_STEP * CART_DAMPING, inertia + TIME_STEP * POLE_DAMPING  # damping is implicit
    determinant = total * inertia - coupling**2
    speed = speed + TIME_STEP * (inertia * push - coupling * torque) / determinant
    turn = turn + TIME_STEP * (total * torque - coupling * push) / determinant
    return np.stack([cart + TIME_STEP * speed, angle + TIME_STEP * turn, speed, turn], axis=-1)


def _stop(cart: Array, speed: Array, free: Array, give: Array, upright_give: float) -> Array:
    """Force of the track's ends. `free` is the acceleration without them, `give` that of one newton (now; upright)."""
    depth, inward = np.abs(cart) - HALF_TRACK, -np.sign(cart)
    share = np.clip(depth / WIDTH, 0, 1)
    share = np.where(share < 0.5, 2 * share**2, 1 - 2 * (1 - share) ** 2)
    low, high = IMPEDANCE
    impedance = low + share * (high - low)
    stiffness, damping = impedance / (high * TIME_CONSTANT) ** 2, 2 / (high * TIME_CONSTANT)
    lacking = stiffness * depth - damping * inward * speed - inward * free
    force = np.maximum(0, lacking) / (give + (1 - impedance) / impedance * upright_give)
    return np.where(depth > 0, inward * force, 0.0)
