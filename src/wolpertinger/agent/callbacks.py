"""Callbacks for `learn`."""

import logging
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.callbacks import BaseCallback

from wolpertinger.settings import check_number, show

LEAST_RANDOM = 5  # episodes of the warm-up, without which nobody knows what random actions earn
WHOLE = 0.9  # share of the episodes begun in the warm-up's first half that must have ended in it
EPISODES = 30  # that are judged together, each once
ERRORS = 4.0  # standard errors that count as worse: 1 in 30,000 such batches of a policy that is as good as random
GRACE = 0.2  # share of the run before anyone judges: most policies begin badly

logger = logging.getLogger("wolpertinger")


class WorseThanRandom(BaseCallback):
    """Warns when the policy earns clearly less than the random actions of the warm-up did, with what to look at.

    Every 30 episodes are compared with the random ones, by their means and standard errors; the first fifth of the run
    is not judged. It warns once, and again only after the return was back at the random level. `say` gets the text; by
    default it is a warning of the logger "wolpertinger". Give what random actions earn as `level` where it is known: a
    warm-up that is shorter than a few episodes does not tell.
    """

    def __init__(self, say: Callable[[str], None] = logger.warning, *, level: float | None = None) -> None:
        super().__init__()
        check_number("level", level, least=-math.inf, optional=True)
        if not callable(say):
            raise TypeError(f"say={show(say)}: give a function of a text")
        self.say, self.level = say, level
        self.random: list[float] = []
        """Returns of episodes of random actions."""
        self.recent: list[float] = []
        """Returns since the last judgement."""
        self.is_worse = False
        self._knows_random: bool | None = None if level is None else True  # None: in the warm-up
        self._began: npt.NDArray[np.int64] = np.zeros(0, np.int64)  # the step in which each environment's episode did

    def _on_training_start(self) -> None:
        self._began = np.full(self.training_env.num_envs, self.num_timesteps)
        self.recent.clear()

    def _on_step(self) -> bool:
        warm_up, n_envs = self.model.learning_starts, len(self._began)  # type: ignore[attr-defined]
        if self._knows_random is None and self.num_timesteps - n_envs >= warm_up:  # this step's actions are not random
            self._end_warm_up(warm_up)
        for place in np.flatnonzero(self.locals["dones"]):
            episode = self.locals["infos"][place].get("episode")
            if episode is not None:  # without a Monitor around the environment nobody counts returns
                self._add(float(episode["r"]), self._began[place], warm_up)
            self._began[place] = self.num_timesteps
        return True

    def _end_warm_up(self, warm_up: int) -> None:
        """Use only what began in the first half, and only if most of it has ended: short episodes end first."""
        going_on = int((self._began < warm_up / 2).sum())
        self._knows_random = len(self.random) >= max(LEAST_RANDOM, WHOLE * (len(self.random) + going_on))
        if not self._knows_random:
            what = (len(self.random), len(self.random) + going_on)
            logger.info(
                "WorseThanRandom: %d of %d random episodes ended in the warm-up, too few to compare with", *what
            )

    def _add(self, earned: float, began: int, warm_up: int) -> None:
        if self._knows_random is None:
            self.random += [earned] if began < warm_up / 2 else []
        elif self._knows_random and began >= warm_up and self.model._current_progress_remaining <= 1 - GRACE:
            self.recent.append(earned)
            if len(self.recent) == EPISODES:
                self._judge()
                self.recent.clear()

    def _judge(self) -> None:
        samples, now = [self.recent], np.mean(self.recent)
        level, earn = self.level, "random actions earn"
        if level is None:
            samples.append(self.random)
            level, earn = float(np.mean(self.random)), f"{len(self.random)} of random actions"
        error = math.sqrt(sum(np.var(sample, ddof=1) / len(sample) for sample in samples))
        self.logger.record("rollout/random_rew_mean", level)
        if now >= level:
            self.is_worse = False
        elif now < level - ERRORS * error and not self.is_worse:
            self.is_worse = True
            self.say(
                f"worse than random: at step {self.num_timesteps:,} the last {EPISODES} episodes earned {now:.4g} on "
                f"average, {earn} {level:.4g}. Look at train/q_chosen in the log: values "
                "far above any return run away (smaller learning_rate, gamma or tau; policy_kwargs layer_norm=True, "
                'predict_by="target"); candidates/agreement or train/reranked near 0: the policy changes with every '
                "update (larger batch_size, fewer updates: train_freq); a policy that repeats itself explores too "
                "little (Exploration(epsilon=...))"
            )
