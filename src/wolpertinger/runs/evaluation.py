"""What a run came to: its best policy beside the optimum and the baselines."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from wolpertinger.agent import Wolpertinger
from wolpertinger.envs.recommender import RecommenderTask
from wolpertinger.runs.build import make_env
from wolpertinger.runs.config import RunConfig, read_config
from wolpertinger.runs.presets import TASKS
from wolpertinger.runs.scores import SCORERS, RecommenderScorer, SampledScore, Score, sampled_score

EVALUATION_SEED = 10_000  # of the episodes' starts; those of the cart-pole are the reference controller's


@dataclass(frozen=True)
class Recommendation:
    """What the policy recommends to a user at an item."""

    at: str
    item: str
    chance: float
    reward: float


@dataclass(frozen=True)
class Ranked:
    """One of the best actions in a state, 1 the best."""

    state: str
    place: int
    action: str
    value: float
    distance: float
    source: str


@dataclass(frozen=True)
class Evaluation:
    """A checkpoint's score beside its baselines, and a few of its choices where they have names."""

    config: RunConfig
    checkpoint: str
    score: Score
    sampled: SampledScore
    baselines: dict[str, float]
    exact: bool
    """Whether the score is free of chance; else it is what the episodes returned."""
    candidates: float | None
    """The return of the best candidate of each state by the true values, where those are known."""
    training_steps_per_second: float | None
    recommendations: list[Recommendation]
    ranked: list[Ranked]
    """The best actions in a few states, if they were asked for."""


def evaluate(
    folder: Path, *, checkpoint: str = "best", episodes: int | None = None, examples: int = 5, top: int = 0
) -> Evaluation:
    """Evaluate a checkpoint ("best", by evaluation during training, or "last") of a run folder.

    The episodes begin in other states than those of training and of choosing the best checkpoint.
    """
    config = read_config(folder)
    agent, env = load_agent(folder, config, checkpoint, episodes or TASKS[config.task].episodes)
    scorer = SCORERS[config.task](env, env.num_envs, EVALUATION_SEED)
    score = scorer.score(agent)
    env.seed(EVALUATION_SEED)  # after `load`, which seeds too
    result = folder / "result.json"
    return Evaluation(
        config=config,
        checkpoint=checkpoint,
        score=score,
        sampled=score.sampled or sampled_score(agent, env, env.num_envs),
        baselines=scorer.baselines,
        exact=scorer.exact,
        candidates=scorer.score_candidates(agent) if isinstance(scorer, RecommenderScorer) else None,
        training_steps_per_second=json.loads(result.read_text())["steps_per_second"] if result.exists() else None,
        recommendations=_recommendations(agent, env, examples, config.seed) if config.task == "recommender" else [],
        ranked=_ranked(agent, env, examples, top) if top else [],
    )


def load_agent(folder: Path, config: RunConfig, checkpoint: str, n_envs: int) -> tuple[Wolpertinger, VecEnv]:
    """A run's agent from a checkpoint, and its task's environment."""
    path = folder / "checkpoints" / f"{checkpoint}.zip"
    if not path.exists():
        kept = ", ".join(sorted(found.stem for found in path.parent.glob("*.zip"))) or "none yet"
        raise FileNotFoundError(f"{folder} has no checkpoint {checkpoint!r}: it has {kept}")
    env = make_env(config, n_envs)
    return Wolpertinger.load(path, env=env), env


def _ranked(agent: Wolpertinger, env: VecEnv, examples: int, top: int) -> list[Ranked]:
    """The `top` best actions in the first states of some episodes."""
    env.seed(EVALUATION_SEED)
    obs: Any = env.reset()
    some = {name: part[:examples] for name, part in obs.items()} if isinstance(obs, dict) else obs[:examples]
    found = agent.rank(some, top)
    names = getattr(env.get_attr("task", indices=0)[0], "names", None) if env.has_attr("task") else None
    rows = zip(found.actions, found.values, found.distances, found.sources, strict=True)
    return [
        Ranked(f"start {number}", place + 1, names[action] if names else str(action), float(q), float(far), str(by))
        for number, row in enumerate(rows)
        for place, (action, q, far, by) in enumerate(zip(*row, strict=True))
    ]


def _recommendations(agent: Wolpertinger, env: VecEnv, examples: int, seed: int) -> list[Recommendation]:
    task: RecommenderTask = env.get_attr("task", indices=0)[0]
    states = np.random.default_rng(seed).choice(task.model.n, size=min(examples, task.model.n), replace=False)
    items, _ = agent.predict(task.observe(states), deterministic=True)
    names = task.names or [f"item {number}" for number in range(task.model.n)]
    chances = task.model.acceptance.at(states, items)
    return [
        Recommendation(names[state], names[item], float(chance), float(task.model.rewards[item]))
        for state, item, chance in zip(states, items, chances, strict=True)
    ]
