"""The agent that learns from a log, without an environment, and goes on from there in one."""

from collections import deque
from dataclasses import fields
from time import time_ns
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import CallbackList, ProgressBarCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.common.utils import configure_logger

from wolpertinger.actions import ActionSet, Allowed
from wolpertinger.agent.restricted import RestrictedAlgorithm
from wolpertinger.agent.standardization import fit_units
from wolpertinger.agent.validation import require_observations
from wolpertinger.data import LogError, Transitions
from wolpertinger.data.sampling import LogSampler, returns_of
from wolpertinger.learners import Batch
from wolpertinger.settings import check_flag, check_kind, check_number

LEARNER = "offline"  # unless the user gives one
EPOCHS, LEAST_UPDATES, MOST_UPDATES = 10, 2_000, 20_000  # that a log is worth, unless the user says how many
UPDATES_AT_ONCE = 50  # between two looks at callbacks
LOGGED_RETURNS = 100_000  # rows by which values are scaled
SCALED_BY = 4_096  # rows by which states are


class LoggedAlgorithm(RestrictedAlgorithm):
    """Batches from a log, from the replay buffer, or from both."""

    logged: LogSampler | None = None
    """What is drawn from a log."""
    standardize: bool | None
    log_share = 0.5
    """Of each batch, that comes from the log, once there are transitions of the agent's own."""

    @classmethod
    def from_log(
        cls,
        transitions: Transitions,
        actions: ActionSet,
        *,
        updates: int | None = None,
        unlogged: bool = False,
        observation_space: spaces.Space | None = None,
        policy: Any = "MlpPolicy",
        callback: MaybeCallback = None,
        progress_bar: bool = False,
        logger: Logger | None = None,
        **settings: Any,
    ) -> Self:
        """An agent that has learned from a log alone.

        :param actions: the set that the log's actions are of.
        :param updates: batches to learn from; by default so many that each row counts about ten times, within limits.
        :param unlogged: whether the agent may pick actions that the log never took nor allowed. What they are worth is
            a guess, and with many of them the best guess is a mistake.
        :param observation_space: that of an environment to go on in, say; by default a Box of any numbers.
        :param settings: other arguments of the agent; learner="offline" by default.
        """
        check_kind("transitions", transitions, Transitions, "Transitions(...), or one read from a file")
        check_kind("actions", actions, ActionSet, "an action set, such as ActionTable(vectors)")
        check_kind("observation_space", observation_space, spaces.Space | None, "a Gymnasium space or None")
        if observation_space is not None:
            require_observations(observation_space)
        check_flag("unlogged", unlogged)
        check_number("updates", updates, least=1, whole=True, optional=True)
        transitions.check(actions)
        logged = None if unlogged else transitions.logged_actions()
        known = actions if logged is None or len(logged) == actions.n else actions.only(logged) or actions
        agent = cls._untrained(policy, observation_space or transitions.observation_space(), known, settings)
        agent._require_support(logged)
        agent.restrictions.from_env = transitions.allowed is not None
        agent.mix_with(transitions)
        if logger is not None:
            agent.set_logger(logger)
        return agent.learn_from_log(updates, callback, progress_bar=progress_bar)

    @classmethod
    def _untrained(cls, policy: Any, space: spaces.Space, actions: ActionSet, settings: dict[str, Any]) -> Self:
        """An agent without an environment."""
        given = {"learner": LEARNER, "learning_starts": 0, "n_steps": 1, **settings}
        agent = cls(policy, None, actions, _init_setup_model=False, **given)  # type: ignore[call-arg, arg-type]
        agent.observation_space, agent.action_space, agent.n_envs = space, actions.space, 1
        agent._setup_model()
        return agent

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Train in another environment from now on; the first one after a log may have any number of copies."""
        wrapped = self._wrap_env(env, self.verbose)
        is_first = self.env is None and self.logged is not None
        if is_first:
            self._adopt_space(wrapped.observation_space)
            self.n_envs = wrapped.num_envs
        super().set_env(wrapped, force_reset)
        if is_first and self.replay_buffer.n_envs != self.n_envs and not self.replay_buffer.size():
            self.replay_buffer = self._make_buffer()

    def _adopt_space(self, space: spaces.Space) -> None:
        """An environment knows bounds that a log does not show; networks depend on neither."""
        own = self.observation_space
        if not (isinstance(own, spaces.Box) and isinstance(space, spaces.Box)):
            return
        if own.shape == space.shape and own.dtype == space.dtype:
            self.observation_space = self.policy.observation_space = space

    def mix_with(self, transitions: Transitions, share: float = 0.5) -> None:
        """Learn from this log from now on: from it alone until the replay buffer holds something, then by `share`."""
        check_kind("transitions", transitions, Transitions, "Transitions(...), or one read from a file")
        check_number("share", share, most=1)
        transitions.check(self.actions)
        if self.n_steps != 1:
            raise ValueError(f"n_steps={self.n_steps}: a log is learned from one step at a time, give n_steps=1")
        expected, found = self.observation_space.shape or (), transitions["observation"].shape[1:]
        if found != expected and not (found == () and expected == (1,)):
            raise LogError(f"the log's observations have shape {found}, the agent's {expected}")
        self.logged, self.log_share = LogSampler(transitions, self.seed), share

    def learn_from_log(
        self, updates: int | None = None, callback: MaybeCallback = None, *, progress_bar: bool = False
    ) -> Self:
        """`updates` more batches of the log; steps, in callbacks and in the logger, are updates meanwhile."""
        if self.logged is None:
            raise ValueError("there is no log: give one to mix_with, or make the agent with from_log")
        rows = len(self.logged.log)
        total_timesteps = updates or max(LEAST_UPDATES, min(MOST_UPDATES, EPOCHS * rows // self.batch_size))
        if self.standardize and not self.policy.critic.values.is_fitted:
            self._fit_units()
        self._begin_offline(total_timesteps)
        watch = CallbackList([self._init_callback(callback), *([_UpdatesBar()] if progress_bar else [])])
        watch.init_callback(self)
        watch.on_training_start(locals(), globals())
        while self.num_timesteps < total_timesteps:
            count = min(UPDATES_AT_ONCE, total_timesteps - self.num_timesteps)
            watch.on_rollout_start()
            self._update_current_progress_remaining(self.num_timesteps, total_timesteps)
            self.train(count, self.batch_size)
            self.num_timesteps += count
            watch.update_locals(locals())
            if not watch.on_step():
                break
            watch.on_rollout_end()
            if self.num_timesteps % (total_timesteps // 100 + 1) < count:
                self.dump_logs()
        watch.on_training_end()
        return self

    def _begin_offline(self, total: int) -> None:
        self.start_time, self.num_timesteps, self._episode_num = time_ns(), 0, 0
        self._total_timesteps, self._num_timesteps_at_start = total, 0
        self.ep_info_buffer, self.ep_success_buffer = deque(maxlen=1), deque(maxlen=1)
        if not self._custom_logger:
            self._logger = configure_logger(self.verbose, self.tensorboard_log, "log", True)

    def _fit_units(self) -> None:
        assert self.logged is not None
        returns = returns_of(self.logged.log, self.gamma, LOGGED_RETURNS)
        if np.std(returns) == 0:
            raise LogError(f"every return of the log is {returns[0]:g}: there is nothing to learn from it")
        obs = self._to_obs(self.logged.sample(SCALED_BY).obs)
        fit_units(self.policy, obs, torch.as_tensor(returns, device=self.device))

    def _require_support(self, logged: npt.NDArray[np.int64] | None) -> None:
        """Refuse to search all of a set that cannot be restricted to the logged actions."""
        if logged is None or len(logged) == self.actions.n or self.policy.behaviour.source.needs_actor:
            return
        raise ValueError(
            f"{self.actions!r} cannot be restricted to the {len(logged):,} actions of the log, and these candidates "
            'are searched in all of it: give candidates="nearest", or unlogged=True'
        )

    def _sample(self, batch_size: int) -> Batch:
        """Line 12: a batch of the replay buffer, of the log, or of both."""
        if self.logged is None:
            return self._sample_buffer(batch_size)
        if not self.replay_buffer.size():
            return self._sample_log(batch_size)
        from_log = round(self.log_share * batch_size)
        parts = [self._sample_log(from_log)] if from_log else []
        parts += [self._sample_buffer(batch_size - from_log)] if from_log < batch_size else []
        return parts[0] if len(parts) == 1 else join(*parts)

    def _sample_buffer(self, batch_size: int) -> Batch:
        """A batch of the replay buffer, in which time-outs are not "done"."""
        batch, known = self._sample_restricted(batch_size)
        discount = self.gamma if batch.discounts is None else batch.discounts.squeeze(1)
        return Batch(
            obs=batch.observations,
            actions=batch.actions.reshape(len(batch.actions), *(self.action_space.shape or ())),
            rewards=batch.rewards.squeeze(1),
            next_obs=batch.next_observations,
            discounts=(1 - batch.dones.squeeze(1)) * discount,
            **known,
        )

    def _sample_log(self, batch_size: int) -> Batch:
        assert self.logged is not None
        rows, log = self.logged.sample(batch_size), self.logged.log
        known: dict[str, Any] = {}
        if log.allowed is not None:
            following = np.where(rows.terminated, rows.number, rows.number + 1)
            known["next_allowed"] = Allowed(log.allowed_in(following))
        return Batch(
            obs=self._to_obs(rows.obs),
            actions=torch.as_tensor(rows.actions, device=self.device),
            rewards=torch.as_tensor(rows.rewards, device=self.device),
            next_obs=self._to_obs(rows.next_obs),
            discounts=torch.as_tensor(self.gamma * ~rows.terminated, dtype=torch.float32, device=self.device),
            **known,
        )

    def _to_obs(self, obs: Any) -> torch.Tensor:
        """Observations of a log as the replay buffer gives its own."""
        space, tensor = self.observation_space, torch.as_tensor(obs, device=self.device)
        tensor = tensor.reshape(len(tensor), *(space.shape or (1,)))
        return tensor.float() if isinstance(space, spaces.Box) and space.dtype != np.uint8 else tensor


class _UpdatesBar(ProgressBarCallback):
    """Stable-Baselines3's bar, over updates."""

    def _on_step(self) -> bool:
        self.pbar.update(self.num_timesteps - self.pbar.n)
        return True


def join(ours: Batch, theirs: Batch) -> Batch:
    """One batch of two."""
    parts: dict[str, Any] = {}
    for field in fields(Batch):
        own, other = getattr(ours, field.name), getattr(theirs, field.name)
        if isinstance(own, torch.Tensor) and isinstance(other, torch.Tensor):
            parts[field.name] = torch.cat([own, other.to(own.dtype)])
        elif isinstance(own, Allowed) and isinstance(other, Allowed):
            parts[field.name] = Allowed([*own.states, *other.states])
        elif (own is None) != (other is None) and field.name == "next_allowed":
            raise ValueError("the log and the environment must both say what states allow, or neither")
    return Batch(**parts)
