"""The state of the cart-pole that pictures show."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Track:
    """Constants: metres from the middle of the track to its end and to the goal's end, largest force in newtons."""

    half: float
    goal: float
    max_force: float


@dataclass(frozen=True)
class Moment:
    """Cart position and pole length in metres, angle from upright in radians, the force just applied, the score."""

    cart: float
    angle: float
    length: float
    force: float
    rewarded: bool
    steps: int
    total: float
