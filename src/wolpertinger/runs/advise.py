"""Which k to train with: Lemma 1, the critic and the returns of a trained run, against what k costs."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from scipy.stats import spearmanr

from wolpertinger.agent import Wolpertinger
from wolpertinger.runs.advise_cost import Cost, measure_cost
from wolpertinger.runs.config import read_config
from wolpertinger.runs.evaluation import EVALUATION_SEED, load_agent
from wolpertinger.runs.lemma import MOST, STATES, Study, study, visited_observations
from wolpertinger.runs.presets import TASKS
from wolpertinger.runs.scores import SCORERS, Score, Scorer
from wolpertinger.threads import count_threads, using_threads

MARGIN = 0.05  # of the gain that the lemma predicts from k = 1 to the largest k: what one may miss of it
WORTH = 0.01  # of the value at k = 1: with less to gain than that, candidates are not worth their time
SLOWDOWN = 4  # times as long as at k = 1: what a training step may take
SHARES = (0.05, 0.1)  # of A: the paper's
VALUES = 2**22  # states times candidates, the most to look at
SCORE_SECONDS = 30.0  # the most that the score at one k may take
STATES_SEED = 30_000  # other episodes than those of training, of choosing the best checkpoint and of the scores


@dataclass(frozen=True)
class Row:
    """One k: what its best candidate is worth and what it costs."""

    k: int
    predicted: float
    """Mean value of the best candidate by Lemma 1 ..."""
    measured: float
    """... and by the critic."""
    seconds: float
    """Of a training step of all environments, predicted; of its choices only, where the run left no times."""
    steps_per_second: float | None
    """Transitions in training, predicted; None where the run left no times."""
    score: float | None
    """Return of the trained agent when it acts with this k; None where it was not measured."""
    half_width: float | None
    """Of its 95 % confidence interval; None where the score is exact."""
    distinct: int | None
    """Different actions that it takes."""


class Time(NamedTuple):
    """What training takes at a k, as in `Row`."""

    seconds: float
    steps_per_second: float | None


@dataclass(frozen=True)
class Check:
    """The advice beside the returns of the same agent acting with each k."""

    k: int
    """The advised one, or if that was not measured the largest below it."""
    score: float
    best_k: int
    best_score: float
    share: float | None
    """Of the best score, both counted from that of random actions; None where no k is better than those."""
    holds: bool | None
    """Whether the share is at least 1 - MARGIN ..."""
    holding: int
    """... and for how many of the k measured it is: where for nearly all, the check says little."""
    tried: int
    rank_correlation: float | None
    """Between predicted values and returns, over all k measured (Spearman); None where all returns are the same."""


@dataclass(frozen=True)
class Advice:
    """What was found; `asdict` of it is advise.json."""

    task: str
    env: dict[str, Any]
    checkpoint: str
    actions: int
    trained_k: int
    k: int
    """The advice: by Lemma 1 ..."""
    critic_k: int
    """... and by the same rule from the critic's own values."""
    margin: float
    """How far the advised k's value may be from that of the largest k."""
    check: Check | None
    rows: list[Row]
    baselines: dict[str, float]
    study: Study
    cost: Cost
    notes: list[str]


def advise(
    folder: Path,
    *,
    checkpoint: str = "best",
    states: int = STATES,
    measure: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> Advice:
    """Advise a k from a run folder's trained agent, into advise.json in the folder; `say` hears of progress.

    :param states: that the policy visits, to fit Lemma 1 in.
    :param measure: also score the agent at every k, as `evaluate` does.
    """
    config, result = read_config(folder), _read_result(folder)
    task = TASKS[config.task]
    agent, env = load_agent(folder, config, checkpoint, task.episodes)
    if agent.policy.candidates != "nearest":
        raise ValueError(
            f"{folder}: k is advised for candidates around a proto-action, and this agent's are "
            f'candidates="{agent.policy.candidates}"; train one with --preset nearest'
        )
    most, extra, notes = candidates_to_study(agent.actions.n, agent.k, states)
    with using_threads(result.get("threads", count_threads())):  # as the run was timed
        say(f"values of candidates in {states} states")
        observations = visited_observations(agent, env, states, steps=task.episode_steps, seed=STATES_SEED)
        found = study(agent, observations, most, ks=extra)
        say("times of choosing")
        cost = measure_cost(agent, observations, found.k, config.n_envs)
        scorer = SCORERS[config.task](env, env.num_envs, EVALUATION_SEED) if measure else None
        scores = score_at(agent, scorer, found.k, cost, notes, say) if scorer else {}
    if not result:
        notes.append("The run left no result.json (was it interrupted?): its steps per second are unknown.")
    rows = _rows(found, training_times(result, cost, found.k, agent.k, config.n_envs), scores)
    about = {"task": config.task, "env": config.env, "checkpoint": checkpoint, "actions": agent.actions.n}
    baselines = scorer.baselines if scorer else {}
    advice = _conclude(rows, baselines, **about, trained_k=agent.k, study=found, cost=cost, notes=notes)
    (folder / "advise.json").write_text(json.dumps(asdict(advice), indent=1) + "\n")
    return advice


def _conclude(rows: list[Row], baselines: dict[str, float], **found: Any) -> Advice:
    margin = margin_of([row.predicted for row in rows])
    k = recommend(rows, [row.predicted for row in rows], margin)
    return Advice(
        k=k,
        critic_k=recommend(rows, [row.measured for row in rows], margin),
        margin=margin,
        check=check(k, rows, baselines["random"]) if baselines else None,
        rows=rows,
        baselines=baselines,
        **found,
    )


def candidates_to_study(n: int, own: int, states: int) -> tuple[int, list[int], list[str]]:
    """How many of n actions to look at in each state, which k to add to the usual ones, and what to tell the user."""
    most = min(n, max(MOST, min(own, VALUES // states)))
    wanted = {f"the run's own k = {own:,}": own} | {
        f"{share:.0%} of A": int(Fraction(str(share)) * n) for share in SHARES
    }
    if most == n:
        return most, [max(1, k) for k in wanted.values()], []
    beyond = [name for name, k in wanted.items() if k > most]
    note = f"Of {n:,} actions, the {most:,} nearest to each proto-action were looked at"
    return most, [k for k in wanted.values() if k <= most], [f"{note}; beyond them: {', '.join(beyond) or 'nothing'}."]


def margin_of(predicted: Sequence[float]) -> float:
    """How far a value may be from the last one: MARGIN of the gain; all of it, where that is not WORTH having."""
    gain = predicted[-1] - predicted[0]
    return MARGIN * gain if gain > WORTH * abs(predicted[0]) else gain


def recommend(rows: Sequence[Row], values: Sequence[float], margin: float) -> int:
    """The rule: the smallest k whose value is within `margin` of the last one's, of those whose training step takes at
    most SLOWDOWN times as long as the first one's; if none of these is within it, the largest of them.
    """
    enough = [row.k for row, value in zip(rows, values, strict=True) if value >= values[-1] - margin]
    affordable = [row.k for row in rows if row.seconds <= SLOWDOWN * rows[0].seconds]
    return min(min(enough), max(affordable))


def score_at(
    agent: Wolpertinger,
    scorer: Scorer,
    ks: Sequence[int],
    cost: Cost,
    notes: list[str],
    say: Callable[[str], None] = lambda line: None,
) -> dict[int, Score]:
    """The agent's score when it acts with each k, up to the first that would take too long, which goes to `notes`."""
    own, scores = agent.k, {}
    expected, last = 0.0, ks[0]
    try:
        for k in ks:
            expected *= cost.seconds(k) / cost.seconds(last)  # at most: what the environment takes does not grow
            if expected > SCORE_SECONDS:
                notes.append(
                    f"Returns from k = {k:,} on were not measured: more than {SCORE_SECONDS:.0f} seconds each."
                )
                break
            say(f"return at k = {k:,}")
            agent.k, start = k, perf_counter()
            scores[k] = scorer.score(agent)
            expected, last = perf_counter() - start, k
    finally:
        agent.k = own
    return scores


def check(k: int, rows: Sequence[Row], random: float) -> Check:
    """Compare the advice with the returns."""
    scores = {row.k: row.score for row in rows if row.score is not None}
    best_k = max(scores, key=lambda each: scores[each])
    k = max(each for each in scores if each <= k)
    best, ours = scores[best_k], scores[k]
    shares = {each: (score - random) / (best - random) for each, score in scores.items()} if best > random else {}
    predicted = [row.predicted for row in rows if row.score is not None]
    varied = len(set(scores.values())) > 1 and len(set(predicted)) > 1
    return Check(
        k=k,
        score=ours,
        best_k=best_k,
        best_score=best,
        share=shares.get(k),
        holds=shares[k] >= 1 - MARGIN if shares else None,
        holding=sum(share >= 1 - MARGIN for share in shares.values()),
        tried=len(scores),
        rank_correlation=float(spearmanr(predicted, list(scores.values())).statistic) if varied else None,
    )


def training_times(result: dict[str, Any], cost: Cost, ks: Sequence[int], own: int, n_envs: int) -> list[Time]:
    """What training takes at each k: the run's time without choosing, and the choices of the k instead of its own.

    Choices are timed relative to those of the run's own k, which so comes out as it was, whatever the machine does now.
    """
    chosen = [cost.seconds(k) for k in ks]
    if not result.get("steps_per_second"):  # none, or not one update was made
        return [Time(seconds, None) for seconds in chosen]
    # Random steps before the first update cost next to nothing.
    steps = (result["steps"] - result.get("warm_up_steps", 0)) / n_envs
    total = n_envs / result["steps_per_second"]
    choosing = min(total, (result["time"].get("lookup", 0.0) + result["time"].get("rerank", 0.0)) / steps)
    times = [total + choosing * (seconds / cost.seconds(own) - 1) for seconds in chosen]
    return [Time(seconds, n_envs / seconds) for seconds in times]


def _rows(found: Study, times: Sequence[Time], scores: dict[int, Score]) -> list[Row]:
    rows = []
    for k, predicted, measured, time in zip(found.k, found.predicted, found.measured, times, strict=True):
        score = scores.get(k)
        half_width = score.sampled.half_width if score and score.sampled else None
        value, distinct = (score.value, score.distinct) if score else (None, None)
        rows.append(Row(k, predicted, measured, time.seconds, time.steps_per_second, value, half_width, distinct))
    return rows


def _read_result(folder: Path) -> dict[str, Any]:
    path = folder / "result.json"
    return json.loads(path.read_text()) if path.exists() else {}
