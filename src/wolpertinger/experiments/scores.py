"""What a policy is worth: exactly where the environment can say, by episodes everywhere."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from wolpertinger.actions import sample_actions
from wolpertinger.agent import Wolpertinger
from wolpertinger.envs import UserModel
from wolpertinger.envs.cartpole import reference_return
from wolpertinger.envs.puddle_map import LONGEST_PLAN

EXPLAINED_AT_ONCE = 1 << 16  # states times k in one batch of predictions


@dataclass(frozen=True)
class Score:
    """A policy's return beside the best that is known."""

    value: float
    distinct: int
    """How many different actions the policy takes: over all states where the score is exact, else in the episodes."""
    best: float | None = None
    """The optimum, or a reference that is close to it; None where nothing is known."""
    candidates: float | None = None
    """Return of the best candidate of each state by the true values: what a perfect critic would make of this actor."""
    sampled: "SampledScore | None" = None
    """The episodes that the score is of; None where it was computed."""

    @property
    def share(self) -> float | None:
        """Of the best."""
        return None if self.best is None else self.value / self.best


@dataclass(frozen=True)
class SampledScore:
    """A policy's mean return over episodes, with the half-width of its 95 % confidence interval."""

    mean: float
    half_width: float
    episodes: int
    distinct: int
    steps_per_second: float


class Scorer(Protocol):
    """Scores agents on one task."""

    baselines: dict[str, float]
    """Returns to compare with; the first is the best known, of which shares are taken, unless it is "random"."""
    exact: bool
    """Whether a score is free of chance."""

    def score(self, agent: Wolpertinger) -> Score: ...


class RecommenderScorer:
    """The return of the agent's policy in a recommender, computed over all of its states."""

    exact = True

    def __init__(self, env: VecEnv) -> None:
        self.model: UserModel = env.get_attr("model", indices=0)[0]
        self.baselines = {
            "optimum": self.model.optimum.value,
            "best fixed item": self.model.best_fixed.value,
            "random": self.model.random_value,
        }

    def score(self, agent: Wolpertinger) -> Score:
        model = self.model
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
        return Score(
            value=float(model.evaluate(policy).mean()),
            distinct=len(np.unique(policy)),
            best=model.optimum.value,
            candidates=float(model.evaluate(best_candidate).mean()),
        )


class EpisodeScorer:
    """The mean return of episodes, the same ones every time: their starts are drawn with one seed."""

    def __init__(self, env: VecEnv, episodes: int, seed: int, baselines: dict[str, float], *, exact: bool) -> None:
        self.env, self.episodes, self.seed, self.exact = env, episodes, seed, exact
        self.baselines = baselines

    def score(self, agent: Wolpertinger) -> Score:
        self.env.seed(self.seed)
        found = sampled_score(agent, self.env, self.episodes)
        name, best = next(iter(self.baselines.items()))
        return Score(found.mean, found.distinct, None if name == "random" else best, sampled=found)


def puddle_scorer(env: VecEnv, episodes: int, seed: int) -> EpisodeScorer:
    """Puddle World is deterministic and has one start: one episode is the exact score."""
    task = env.get_attr("task", indices=0)[0]
    baselines = {"optimum": task.map.best_score}
    if task.plan <= LONGEST_PLAN:
        baselines["best fixed plan"] = task.map.best_fixed_plan(task.plan, task.max_moves)[1]
    return EpisodeScorer(env, 1, seed, {**baselines, "random": task.map.random_value}, exact=True)


def cartpole_scorer(env: VecEnv, episodes: int, seed: int) -> EpisodeScorer:
    baselines = {"reference controller": reference_return(), "random": random_return(env, episodes, seed)}
    return EpisodeScorer(env, episodes, seed, baselines, exact=False)


def control_scorer(env: VecEnv, episodes: int, seed: int) -> EpisodeScorer:
    return EpisodeScorer(env, episodes, seed, {"random": random_return(env, episodes, seed)}, exact=False)


def recommender_scorer(env: VecEnv, episodes: int, seed: int) -> RecommenderScorer:
    return RecommenderScorer(env)


SCORERS: dict[str, Callable[[VecEnv, int, int], Scorer]] = {
    "recommender": recommender_scorer,
    "cart-pole": cartpole_scorer,
    "puddle-world": puddle_scorer,
    "control": control_scorer,
}
"""How each task is scored: from its environment, a number of episodes and the seed of their starts."""


def sampled_score(agent: BaseAlgorithm | BasePolicy | Any, env: VecEnv, episodes: int) -> SampledScore:
    """The mean return of `episodes` episodes."""
    taken: set[bytes] = set()

    def remember(locals_: dict[str, Any], _: dict[str, Any]) -> None:
        taken.add(np.asarray(locals_["actions"][locals_["i"]]).tobytes())

    start = perf_counter()
    returns, lengths = evaluate_policy(agent, env, episodes, return_episode_rewards=True, callback=remember)
    seconds = perf_counter() - start
    half_width = 1.96 * float(np.std(returns, ddof=1)) / np.sqrt(episodes) if episodes > 1 else 0.0
    return SampledScore(float(np.mean(returns)), half_width, episodes, len(taken), float(np.sum(lengths)) / seconds)


def random_return(env: VecEnv, episodes: int, seed: int) -> float:
    """The mean return of uniformly random actions."""
    env.seed(seed)
    return sampled_score(_RandomPolicy(env, seed), env, episodes).mean


class _RandomPolicy:
    def __init__(self, env: VecEnv, seed: int) -> None:
        self.space, self.n, self.rng = env.action_space, env.num_envs, np.random.default_rng(seed)

    def predict(self, *_: Any, **__: Any) -> tuple[np.ndarray, None]:
        return sample_actions(self.space, self.rng, self.n), None
