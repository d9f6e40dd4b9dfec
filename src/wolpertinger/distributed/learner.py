"""The agent whose transitions are made by workers: all else is as on one machine."""

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import RolloutReturn
from stable_baselines3.common.vec_env import VecEnv

from wolpertinger.agent import Wolpertinger
from wolpertinger.agent.faults import cut_returns
from wolpertinger.distributed.fragments import Fragment, Playback
from wolpertinger.distributed.workers import Workers


class Learner(Wolpertinger):
    """Stores what workers send, as if its own environments had just taken those steps, and updates as often.

    Its own environments are there for what they say of spaces and actions, and for a run that goes on without workers.
    """

    workers: ClassVar[Workers]
    acts_elsewhere = True
    _playback: Playback | None = None
    _fragment: Fragment | None = None
    _row = 0

    @classmethod
    def with_workers(cls, workers: Workers) -> type[Self]:
        """The class of a learner that these workers work for."""
        return type(cls.__name__, (cls,), {"workers": workers})

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        if self.optimize_memory_usage:
            raise ValueError("optimize_memory_usage=True: fragments of several workers do not follow one another")
        started = super()._setup_learn(*args, **kwargs)
        if self.restrictions.is_used:
            raise ValueError("states that say what they allow are not collected by workers: train without Ray")
        self.ages: list[int] = []
        """Of the weights of each fragment since the log was written, in updates."""
        return started

    def collect_rollouts(self, env: VecEnv, callback: BaseCallback, *args: Any, **kwargs: Any) -> RolloutReturn:
        while not self._has_steps():
            callback.on_rollout_start()  # checkpoints and signals do not wait for workers
        if self._playback is None or self._playback.venv is not env:
            self._playback = Playback(env)
        return super().collect_rollouts(self._playback, callback, *args, **kwargs)

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The actions that were executed in the step that comes next."""
        while not self._has_steps():
            pass
        assert self._fragment is not None
        assert self._playback is not None
        if self._row == 0:
            self._begin_fragment(self._fragment)
        self._playback.shown = self._fragment.step(self._row)
        actions = self._fragment.actions[self._row]
        self._row += 1
        return actions, actions

    def _has_steps(self) -> bool:
        """Whether there is a step to store; asks the workers for some, and waits for a moment."""
        if self._fragment is None or self._row == len(self._fragment):
            self._fragment, self._row = self.workers.take(self), 0
        return self._fragment is not None

    def _begin_fragment(self, fragment: Fragment) -> None:
        """Another worker's environments, or the same after others': nothing goes on from the row before."""
        if isinstance(self.replay_buffer, NStepReplayBuffer):
            cut_returns(self.replay_buffer, np.ones(self.n_envs, dtype=np.bool_))
        self._last_obs = fragment.first
        self.faults.unknown = fragment.unknown
        self.diagnostics.merge(fragment.acting)
        self.ages.append(self._n_updates - fragment.order.updates)

    def dump_logs(self) -> None:
        if self.ages:
            self.logger.record("workers/weights_age", float(np.mean(self.ages)))
            self.logger.record("workers/weights_age_max", max(self.ages))
            self.ages.clear()
        after_warm_up = max(1, self.num_timesteps - self.learning_starts)
        self.logger.record("workers/updates_per_transition", self._n_updates / after_warm_up)
        for name, number in self.workers.stats().items():
            self.logger.record(f"workers/{name}", number)
        super().dump_logs()
