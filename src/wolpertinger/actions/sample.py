"""Random actions: uniform over what is there."""

import numpy as np
from gymnasium import spaces

from wolpertinger.actions.base import Actions, ActionSet
from wolpertinger.actions.table import ActionTable


def sample_actions(source: ActionSet | spaces.Space, rng: np.random.Generator, n: int) -> Actions:
    """n actions drawn uniformly from a set, or a Discrete or MultiDiscrete space: ids (n,) or digits (n, d)."""
    if isinstance(source, ActionTable):  # some of its ids may have been removed
        return source.sample(rng, n)
    space = source if isinstance(source, spaces.Space) else source.space
    if isinstance(space, spaces.MultiDiscrete):
        return rng.integers(space.nvec, size=(n, *space.nvec.shape))
    assert isinstance(space, spaces.Discrete)
    return rng.integers(int(space.n), size=n)
