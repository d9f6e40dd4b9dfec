"""Environments that say what they allow, and count what is executed all the same."""

import numpy as np

from wolpertinger.actions import Levels

from .envs import TargetEnv


class StockEnv(TargetEnv):
    """Some actions are in stock, others in each state; `share` of the set, or all but one, or just one.

    `say` is how it says so: "ids", "masks", "levels", "info" or nothing. The first number of an observation tells the
    stock, so that a function of the observation can say it too. Episodes of `length` steps are cut, not terminated,
    with `cut=True`.
    """

    def __init__(self, actions=None, *, share=0.2, say="ids", cut=False, **kwargs):
        super().__init__(actions, **kwargs)
        self.share, self.cut, self.illegal, self.offered = share, cut, 0, []
        self.say = say
        if say in ("ids", "levels"):
            self.allowed_actions = lambda: self.stock(self.target)
        if say == "masks":
            self.action_masks = lambda: self._mask(self.stock(self.target))

    def stock(self, target):
        """What is allowed in a state, a function of what is observed."""
        rng = np.random.default_rng(np.frombuffer(np.asarray(target, np.float32).tobytes(), np.uint32).tolist())
        if self.say == "levels":
            sizes = self.set.factors
            return Levels([rng.choice(n, max(1, round(self.share * n)), replace=False) for n in sizes])
        n = self.set.n
        count = {"one": 1, "all but one": n - 1}.get(self.share) or max(1, round(self.share * n))
        ids = rng.choice(n, count, replace=False)
        shape = self.set.space.shape
        return np.stack(np.unravel_index(ids, self.set.space.nvec), axis=-1) if shape else ids

    def _mask(self, ids):
        mask = np.zeros(self.set.n, np.bool_)
        mask[ids] = True
        return mask

    def _info(self):
        return {"allowed_actions": self.stock(self.target)} if self.say == "info" else {}

    def reset(self, **options):
        obs, _ = super().reset(**options)
        return obs, self._info()

    def is_legal(self, target, action):
        allowed = self.stock(target)
        if isinstance(allowed, Levels):
            digits = np.atleast_1d(np.unravel_index(action, self.set.factors) if np.ndim(action) == 0 else action)
            return all(digit in levels for digit, levels in zip(digits, allowed.of, strict=True))
        return bool((np.asarray(action) == allowed).reshape(len(allowed), -1).all(axis=1).any())

    def step(self, action):
        self.illegal += not self.is_legal(self.target, action)
        obs, reward, ended, _, _ = super().step(action)
        return obs, reward, ended and not self.cut, ended and self.cut, self._info()


def stock_function(env):
    """The same as a function of a batch of observations."""
    return lambda obs: [env.stock(target) for target in obs]
