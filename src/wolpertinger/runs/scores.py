"""What a policy is worth: exactly where the environment can say, by episodes everywhere."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from wolpertinger.actions import read_allowed, sample_space
from wolpertinger.agent import Wolpertinger
from wolpertinger.agent.validation import find_actions
from wolpertinger.envs import UserModel
from wolpertinger.envs.allowed_info import METHODS
from wolpertinger.envs.cartpole_reference import reference_return
from wolpertinger.envs.puddle_map import MAX_SEARCHED_PLAN

EXPLAINED_AT_ONCE = 1 << 16  # states times k
STATES_AT_ONCE = 256  # in one prediction


@dataclass(frozen=True)
class Score:
    """A policy's return beside the best that is known."""

    value: float
    distinct: int
    """How many different actions the policy takes: over all states where the score is exact, else in the episodes."""
    best: float | None = None
    """The optimum, or a reference that is close to it; None where nothing is known."""
    sampled: "SampledScore | None" = None
    """The episodes that the score is of; None where it was computed."""

    @property
    def share(self) -> float | None:
        """Of the best, where that is above 0."""
        return share_of(self.value, self.best)


def share_of(value: float, best: float | None) -> float | None:
    """A return as a share of the best one; None where none is known, or where it is no gain to have a share of."""
    return value / best if best is not None and best > 0 else None


@dataclass(frozen=True)
class SampledScore:
    """A policy's mean return over episodes, with the half-width of its 95 % confidence interval (None: one episode)."""

    mean: float
    half_width: float | None
    episodes: int
    distinct: int
    steps_per_second: float


class Scorer(Protocol):
    """Scores agents on one task."""

    baselines: dict[str, float]
    """Returns to compare with, the best first."""
    best: float | None
    """The best known return, of which shares are taken."""
    exact: bool
    """Whether a score is free of chance."""

    def score(self, agent: Wolpertinger) -> Score: ...


class RecommenderScorer:
    """The return of the agent's policy in a recommender, computed over all of its states."""

    exact = True

    def __init__(self, env: VecEnv) -> None:
        self.model: UserModel = env.get_attr("model", indices=0)[0]
        self.best: float | None = self.model.optimum.value
        self.baselines = {
            "optimum": self.model.optimum.value,
            "best fixed item": self.model.best_fixed.value,
            "random": self.model.random_value,
        }

    def score(self, agent: Wolpertinger) -> Score:
        parts = (agent.predict(agent.actions.embed(states))[0] for states in self._states(STATES_AT_ONCE))
        policy = np.concatenate(list(parts))
        value = float(self.model.evaluate(policy).mean())
        return Score(value, distinct=len(np.unique(policy)), best=self.best)

    def score_candidates(self, agent: Wolpertinger) -> float:
        """The return of the best candidate of each state by the true values: what a perfect choice of them is worth."""
        model = self.model
        if agent.k >= model.n:
            return model.optimum.value
        policy, gain = [], model.gain(model.optimum.values)
        for states in self._states(max(1, EXPLAINED_AT_ONCE // agent.k)):
            found = agent.explain(agent.actions.embed(states)).actions
            worth = model.acceptance.at(states[:, None], found) * gain[found]  # (states, k)
            policy.append(found[np.arange(len(states)), worth.argmax(axis=1)])
        return float(model.evaluate(np.concatenate(policy)).mean())

    def _states(self, size: int) -> Iterator[npt.NDArray[np.int64]]:
        return (np.arange(start, min(start + size, self.model.n)) for start in range(0, self.model.n, size))


class EpisodeScorer:
    """The mean return of episodes, the same ones every time: their starts are drawn with one seed."""

    exact = False

    def __init__(
        self, env: VecEnv, episodes: int, seed: int, baselines: dict[str, float], best: float | None = None
    ) -> None:
        self.env, self.episodes, self.seed = env, episodes, seed
        self.baselines, self.best = baselines, best

    def score(self, agent: Wolpertinger) -> Score:
        self.env.seed(self.seed)
        found = sampled_score(agent, self.env, self.episodes)
        return Score(found.mean, found.distinct, self.best, sampled=found)


class PuddleScorer(EpisodeScorer):
    """Puddle World is deterministic and has one start: one episode is the exact score."""

    exact = True


def puddle_scorer(env: VecEnv, episodes: int, seed: int) -> PuddleScorer:
    task = env.get_attr("task", indices=0)[0]
    if task.max_moves < task.map.distance:  # the exact scores know no cap
        raise ValueError(
            f"max_moves={task.max_moves}: give at least {task.map.distance}, the moves from the start to the goal"
        )
    baselines = {"optimum": task.map.best_score}
    if task.plan <= MAX_SEARCHED_PLAN:
        baselines["best fixed plan"] = task.map.best_fixed_plan(task.plan, task.max_moves)[1]
    baselines["random"] = task.map.random_value
    return PuddleScorer(env, 1, seed, baselines, task.map.best_score)


def cartpole_scorer(env: VecEnv, episodes: int, seed: int) -> EpisodeScorer:
    best = reference_return()
    baselines = {"reference controller": best, "random": random_return(env, episodes, seed)}
    return EpisodeScorer(env, episodes, seed, baselines, best)


def control_scorer(env: VecEnv, episodes: int, seed: int) -> EpisodeScorer:
    return EpisodeScorer(env, episodes, seed, {"random": random_return(env, episodes, seed)})


def recommender_scorer(env: VecEnv, episodes: int, seed: int) -> RecommenderScorer:
    return RecommenderScorer(env)


SCORERS: dict[str, Callable[[VecEnv, int, int], Scorer]] = {
    "recommender": recommender_scorer,
    "cart-pole": cartpole_scorer,
    "puddle-world": puddle_scorer,
    "control": control_scorer,
    "environment": control_scorer,
}
"""How each task is scored: from its environment, a number of episodes and the seed of their starts."""


def sampled_score(agent: BaseAlgorithm | BasePolicy | Any, env: VecEnv, episodes: int) -> SampledScore:
    """The mean return of `episodes` episodes."""
    taken: set[bytes] = set()

    def remember(locals_: dict[str, Any], _: dict[str, Any]) -> None:
        taken.add(np.asarray(locals_["actions"][locals_["i"]]).tobytes())

    start = perf_counter()
    if isinstance(agent, Wolpertinger) and agent.restrictions.from_env:
        agent = agent.acting_in(env)
    returns, lengths = evaluate_policy(agent, env, episodes, return_episode_rewards=True, callback=remember)
    seconds = perf_counter() - start
    half_width = 1.96 * float(np.std(returns, ddof=1) / np.sqrt(episodes)) if episodes > 1 else None
    return SampledScore(float(np.mean(returns)), half_width, episodes, len(taken), float(np.sum(lengths)) / seconds)


def random_return(env: VecEnv, episodes: int, seed: int) -> float:
    """The mean return of uniformly random actions."""
    env.seed(seed)
    return sampled_score(_RandomPolicy(env, seed), env, episodes).mean


class _RandomPolicy:
    def __init__(self, env: VecEnv, seed: int) -> None:
        self.space, self.n, self.rng = env.action_space, env.num_envs, np.random.default_rng(seed)
        self.env, self.asked = env, next((name for name in METHODS if env.has_attr(name)), None)
        self.actions = find_actions(self.space, env, verbose=False) if self.asked else None

    def predict(self, *_: Any, **__: Any) -> tuple[np.ndarray, None]:
        if self.asked is not None and self.actions is not None:  # states say what they allow
            return read_allowed(self.env.env_method(self.asked), self.actions).sample(self.rng), None
        return sample_space(self.space, self.rng, self.n), None
