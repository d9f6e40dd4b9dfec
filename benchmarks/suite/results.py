"""The suite's result files, and what follows from them: normalised scores, interquartile means, intervals."""

import json
import statistics
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.measure import RESULTS

OURS = "class-defaults"
RESAMPLES = 2_000
SCORE_LIMITS = (-1.0, 1.5)  # of a normalised score: one failed run weighs no more than a whole task

# What a user would reach for instead, by task: one output per action while that fits (QR-DQN has 200 per action), PPO
# where it takes the space as it is, continuous control with rounding where vectors are a grid or near it.
SMALL, GRID = ("dqn", "qr-dqn", "ppo"), ("td3", "ddpg", "sac", "ppo")
RIVALS = {
    "sardine-bored": SMALL,
    "sardine-static": SMALL,
    "shop": ("dqn", "ppo", "ddpg"),
    "shop-ends": ("dqn", "ppo", "ddpg"),
    "shop-units": ("dqn", "ppo", "ddpg"),
    "shop-large": ("ppo", "ddpg"),
    "pendulum-table": (*SMALL, "td3"),
    "plane": (*SMALL, "td3"),
    "inventory": GRID,
    "orders": ("ppo",),
    "reacher": GRID,
    "hopper": GRID,
    "half-cheetah": GRID,
    "pendulum": ("dqn", *GRID),
    "generated": SMALL,
    "cart-pole": ("td3",),
    "puddle-world": ("td3", "ddpg", "ppo"),
    "puddle-world-1": SMALL,
    "identity": SMALL,
    "bit-flipping": SMALL,
    "sardine-slates": ("sac-topk",),
    "doudizhu": ("maskable-ppo",),
    "stock": ("maskable-ppo",),
    "walls": ("maskable-ppo",),
}

Run = dict[str, Any]
Scores = npt.NDArray[np.float64]


def read_runs(task: str, label: str) -> list[Run]:
    """The runs of a label on a task, one a seed."""
    paths = sorted((RESULTS / "suite").glob(f"{task}-{label}-[0-9].json"))
    return [json.loads(path.read_text()) for path in paths]


def anchors(task: str) -> tuple[float, float]:
    """The scores of random play and of the best known policy."""
    run = read_runs(task, OURS)[0]
    return run["random"], run["best_known"]


def processor_seconds(runs: list[Run]) -> float | None:
    return statistics.median(run["processor_seconds"] for run in runs) if runs else None


def last_scores(task: str, label: str) -> list[float]:
    """The scores at the end, at equal steps."""
    return [run["last"] for run in read_runs(task, label)]


def scores_at_equal_seconds(task: str, label: str) -> list[float]:
    """The scores when the class defaults were done: of the run made for as long, or on the way of a slower one."""
    ours = processor_seconds(read_runs(task, OURS))
    if label == OURS or ours is None:
        return last_scores(task, label)
    if longer := last_scores(task, f"{label}-seconds"):
        return longer
    return [_score_at(run, ours) for run in read_runs(task, label)]


def _score_at(run: Run, seconds: float) -> float:
    points = [score for _, score, _, spent in run["curve"] if spent <= 1.1 * seconds]
    return points[-1] if points else run["curve"][0][1]


def clip(scores: Scores) -> Scores:
    return np.clip(scores, *SCORE_LIMITS)


def interquartile_mean(tasks: list[Scores]) -> tuple[float, float, float]:
    """Of the normalised scores of all tasks and seeds, with its 95 % interval: seeds are resampled within a task."""

    def statistic(*resampled: Scores, axis: int = -1) -> Scores:
        return stats.trim_mean(np.concatenate(resampled, axis=axis), 0.25, axis=axis)

    found = stats.bootstrap(
        tasks, statistic, n_resamples=RESAMPLES, method="percentile", random_state=np.random.default_rng(0)
    )
    return float(statistic(*tasks)), float(found.confidence_interval.low), float(found.confidence_interval.high)


def probability_of_improvement(ours: list[Scores], theirs: list[Scores]) -> float:
    """The chance that a run of ours beats one of theirs on the same task, mean over tasks; ties count half."""
    pairs = zip(ours, theirs, strict=True)
    return float(np.mean([stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)) for a, b in pairs]))
