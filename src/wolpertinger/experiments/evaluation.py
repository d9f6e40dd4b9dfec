"""What a run came to: its best policy beside the optimum and the baselines."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wolpertinger.agent import Wolpertinger
from wolpertinger.envs.recommender import Task
from wolpertinger.experiments.run import RunConfig, make_env, read_config
from wolpertinger.experiments.scores import ExactScore, SampledScore, exact_score, sampled_score


@dataclass(frozen=True)
class Recommendation:
    """What the policy recommends to a user at an item."""

    at: str
    item: str
    chance: float
    reward: float


@dataclass(frozen=True)
class Evaluation:
    """A checkpoint's score, exact and sampled, and a few of its choices."""

    config: RunConfig
    checkpoint: str
    exact: ExactScore
    sampled: SampledScore
    training_steps_per_second: float | None
    recommendations: list[Recommendation]


def evaluate(folder: Path, *, checkpoint: str = "best", episodes: int = 2_000, examples: int = 5) -> Evaluation:
    """Evaluate a checkpoint ("best", by exact evaluation during training, or "last") of a run folder."""
    config = read_config(folder)
    path = folder / "checkpoints" / f"{checkpoint}.zip"
    if not path.exists():
        kept = ", ".join(sorted(found.stem for found in path.parent.glob("*.zip"))) or "none yet"
        raise FileNotFoundError(f"{folder} has no checkpoint {checkpoint!r}: it has {kept}")
    env = make_env(config)
    agent = Wolpertinger.load(path, env=env)
    env.seed(config.seed + 10_000)  # other users than in training, and after `load`, which seeds too
    task: Task = env.get_attr("task", indices=0)[0]
    result = folder / "result.json"
    return Evaluation(
        config=config,
        checkpoint=checkpoint,
        exact=exact_score(agent, task.model),
        sampled=sampled_score(agent, env, episodes),
        training_steps_per_second=json.loads(result.read_text())["steps_per_second"] if result.exists() else None,
        recommendations=_recommendations(agent, task, examples, config.seed),
    )


def _recommendations(agent: Wolpertinger, task: Task, examples: int, seed: int) -> list[Recommendation]:
    states = np.random.default_rng(seed).choice(task.model.n, size=min(examples, task.model.n), replace=False)
    items, _ = agent.predict(task.observe(states), deterministic=True)
    names = task.names or [f"item {number}" for number in range(task.model.n)]
    chances = task.model.acceptance.at(states, items)
    return [
        Recommendation(names[state], names[item], float(chance), float(task.model.rewards[item]))
        for state, item, chance in zip(states, items, chances, strict=True)
    ]
