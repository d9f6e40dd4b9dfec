"""What a worker sends: some steps of its environments, with a serial number, in the order in which they were taken."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

Infos = list[dict[str, Any]]


@dataclass(frozen=True)
class Order:
    """What the learner asks of a worker: the next fragment, by the newest weights."""

    serial: tuple[int, int, int]
    """Worker, its incarnation, number of the fragment: no two orders of a run have the same."""
    updates: int
    """Of the learner, when it published the weights that come along."""
    position: int
    """Transitions of the run before this fragment, by which exploration goes."""
    total: int
    """Transitions of the whole run."""


@dataclass(frozen=True)
class Fragment:
    """Steps of a worker's environments: arrays (steps, environments, ...)."""

    order: Order
    first: npt.NDArray[Any]
    """Observations before the first step (environments, ...)."""
    unknown: npt.NDArray[np.bool_]
    """Environments whose first observation was bad, and so their first transition is."""
    actions: npt.NDArray[np.int64]
    observations: npt.NDArray[Any]
    """After each step; of the next episode where one ended."""
    rewards: npt.NDArray[np.float32]
    dones: npt.NDArray[np.bool_]
    infos: dict[tuple[int, int], dict[str, Any]]
    """By step and environment, where there is one."""
    acting: dict[str, Any]
    """What `Diagnostics` saw of acting."""

    def __len__(self) -> int:
        return len(self.actions)

    def step(self, row: int) -> VecEnvStepReturn:
        """A step as a vectorised environment returns it."""
        infos = [self.infos.get((row, place), {}) for place in range(self.actions.shape[1])]
        return self.observations[row], self.rewards[row], self.dones[row], infos


class Playback(VecEnvWrapper):
    """Steps that workers have taken, in the place of the environments that `venv` is one more copy of."""

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self.shown: VecEnvStepReturn | None = None
        """What the next step returns."""

    def reset(self) -> VecEnvObs:
        return self.venv.reset()

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """The actions were executed where the step was taken."""

    def step_wait(self) -> VecEnvStepReturn:
        assert self.shown is not None
        return self.shown
