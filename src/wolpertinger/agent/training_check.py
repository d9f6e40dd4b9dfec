"""Whether the state of a training that was read from a file is one that a training can have left.

Arrays of numbers go to generators and environments written in C, some of which take any: all is looked at before any of
it is put in place.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from wolpertinger.agent.faults import all_finite
from wolpertinger.agent.schema import check_fields, number
from wolpertinger.agent.training_state import random_numbers_untouched, set_random_state
from wolpertinger.settings import is_number

if TYPE_CHECKING:
    from wolpertinger.agent.base import ActionSetAlgorithm

FIELDS = {
    *("random", "explorer", "learner", "predictor", "faults", "diagnostics", "seconds", "log"),
    *("episodes", "successes", "last_obs", "last_original_obs", "env"),
}
TWISTER_WORDS = 624  # of the Mersenne twister's state, which numpy reads at any place that it is told


def check_training_state(agent: "ActionSetAlgorithm", state: Any) -> dict[str, Any]:
    """Return the state, if it can be put in place."""
    check_fields("state", state, FIELDS)
    _check_random(state["random"])
    for name, value in state["seconds"].items():
        number()(name, value)
    for name, (value, count, excluded) in state["log"].items():
        if not (is_number(value) or isinstance(value, bool | str | np.generic)):
            raise TypeError(f"the log has {name}={value!r}")
        number(whole=True)(name, count)
        if not all(isinstance(part, str) for part in excluded):
            raise TypeError(f"the log has {name} for {excluded!r}")
    for episode in state["episodes"]:
        if not all(_is_number(episode[name]) for name in ("r", "l")):
            raise TypeError(f"an episode is {episode!r}")
    if not all(_is_number(value) for value in state["successes"]):
        raise TypeError("successes are no numbers")
    check_observations(agent, state["last_obs"])
    check_observations(agent, state["last_original_obs"])
    check_fields("env", state["env"], {"wrappers", "inner"})
    return state


def _check_random(state: Any) -> None:
    check_fields("random", state, {"python", "numpy", "torch", "cuda"})
    kind, keys, place, *rest = state["numpy"]
    right = kind == "MT19937" and isinstance(keys, np.ndarray) and (keys.shape, keys.dtype) == ((624,), np.uint32)
    if not right or type(place) is not int or not 0 <= place <= TWISTER_WORDS or len(rest) != 2:
        raise ValueError("numpy's random numbers are not of the Mersenne twister")
    with random_numbers_untouched():
        set_random_state({**state, "cuda": []})


def check_observations(agent: "ActionSetAlgorithm", obs: Any) -> None:
    """Refuse what is no observation of each environment; there may be none."""
    if obs is None:
        return
    space = agent.observation_space
    if isinstance(space, spaces.Dict):
        check_fields("last_obs", obs, space.spaces)
    parts = [(obs[name], part) for name, part in space.items()] if isinstance(space, spaces.Dict) else [(obs, space)]
    for found, part in parts:
        shape = (agent.n_envs, *(part.shape or ()))
        shapes = (shape, (*shape, 1)) if not part.shape else (shape,)  # Stable-Baselines3 has Discrete ones both ways
        if not isinstance(found, np.ndarray) or found.shape not in shapes or not all_finite(found):
            raise ValueError(f"the last observations are not finite numbers of shape {shape}")


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.generic)
