"""What a policy is worth: exactly where the environment can say, by episodes everywhere."""

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv

from wolpertinger.agent import Wolpertinger
from wolpertinger.envs import UserModel

EXPLAINED_AT_ONCE = 1 << 16  # states times k in one batch of predictions


@dataclass(frozen=True)
class ExactScore:
    """A policy's exact return beside what is possible."""

    value: float
    optimum: float
    best_fixed: float
    random: float
    candidates: float
    """Return of the best candidate of each state by the true values: what a perfect critic would make of this actor."""
    distinct: int
    """How many different actions the policy takes over all states."""

    @property
    def share(self) -> float:
        """Of the optimum."""
        return self.value / self.optimum


@dataclass(frozen=True)
class SampledScore:
    """A policy's mean return over episodes, with the half-width of its 95 % confidence interval."""

    mean: float
    half_width: float
    episodes: int
    steps_per_second: float


def exact_score(agent: Wolpertinger, model: UserModel) -> ExactScore:
    """The return of the agent's policy in a recommender, computed over all of its states."""
    policy = np.empty(model.n, dtype=np.int64)
    best_candidate = np.empty(model.n, dtype=np.int64)
    gain = model.gain(model.optimum.values)
    rows = max(1, EXPLAINED_AT_ONCE // agent.k)
    for start in range(0, model.n, rows):
        states = np.arange(start, min(start + rows, model.n))
        why = agent.explain(agent.actions.embed(states))
        policy[states] = why.chosen
        worth = model.acceptance.at(states[:, None], why.actions) * gain[why.actions]  # (states, k)
        best_candidate[states] = why.actions[np.arange(len(states)), worth.argmax(axis=1)]
    return ExactScore(
        value=float(model.evaluate(policy).mean()),
        optimum=model.optimum.value,
        best_fixed=model.best_fixed.value,
        random=model.random_value,
        candidates=float(model.evaluate(best_candidate).mean()),
        distinct=len(np.unique(policy)),
    )


def sampled_score(agent: Wolpertinger, env: VecEnv, episodes: int) -> SampledScore:
    """The mean return of `episodes` episodes."""
    start = perf_counter()
    returns, lengths = evaluate_policy(agent, env, n_eval_episodes=episodes, return_episode_rewards=True)
    seconds = perf_counter() - start
    half_width = 1.96 * float(np.std(returns, ddof=1)) / np.sqrt(episodes)
    return SampledScore(float(np.mean(returns)), float(half_width), episodes, float(np.sum(lengths)) / seconds)
