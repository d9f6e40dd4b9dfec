"""Environments whose state can be kept and put back, so that a run goes on in the middle of an episode."""

import copy
from typing import Any, ClassVar

import numpy as np

from wolpertinger.settings import check_number


class Restorable:
    """Offers `get_state()` and `set_state(state)`: the attributes in `state_names`, and the random numbers.

    An environment of one's own needs no such base class: the two methods will do.
    """

    state_names: ClassVar[tuple[str, ...]]
    np_random: np.random.Generator

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        check_number("seed", seed, whole=True, optional=True)
        return super().reset(seed=seed, options=options)  # type: ignore[misc]

    def get_state(self) -> dict[str, Any]:
        """All that the next steps depend on: dicts and lists of numbers, text and numpy arrays."""
        own = {name: copy.deepcopy(getattr(self, name)) for name in self.state_names}
        return {"random": self.np_random.bit_generator.state, **own}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` gave, in this or another process."""
        if state.keys() != self.get_state().keys():
            raise ValueError(f"the state holds {', '.join(state)}: give what get_state() returned")
        self.np_random.bit_generator.state = state["random"]
        for name in self.state_names:
            now = getattr(self, name)
            setattr(self, name, _as_before(name, now, state[name]))


def _as_before(name: str, now: Any, saved: Any) -> Any:
    """What was saved, if it has the form of what is there."""
    if isinstance(now, np.ndarray):
        if not isinstance(saved, np.ndarray) or (saved.shape, saved.dtype) != (now.shape, now.dtype):
            found = f"{saved.dtype} of shape {saved.shape}" if isinstance(saved, np.ndarray) else repr(saved)
            raise ValueError(f"{name} of the state is {found}: give {now.dtype} of shape {now.shape}")
        return saved.copy()
    if type(saved) is not type(now):
        raise ValueError(f"{name}={saved!r} of the state: give {type(now).__name__}")
    return copy.deepcopy(saved)
