"""Write down what an agent does in its task's environment, with propensities, as a log that can be learned from."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wolpertinger.agent import Wolpertinger
from wolpertinger.imports import needs_extra
from wolpertinger.runs.config import read_config
from wolpertinger.runs.evaluation import load_agent
from wolpertinger.settings import check_number

ENVS = 64  # episodes at once
ROWS_AT_ONCE = 2**16  # of a row group


def record(
    folder: Path, out: Path, *, checkpoint: str = "best", rows: int = 10_000, epsilon: float = 0.1, seed: int = 0
) -> Path:
    """Write at least so many rows of whole episodes to a Parquet file: the run's policy, with chance `epsilon` an
    action drawn uniformly from A instead. Where states say what they allow, or actions are not ids, it refuses.
    """
    check_number("rows", rows, least=1, whole=True)
    check_number("epsilon", epsilon, most=1)
    check_number("seed", seed, whole=True)
    if out.exists():
        raise FileExistsError(f"{out} exists already: give another file")
    with needs_extra("logs", "a log in Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    agent, env = load_agent(folder, read_config(folder), checkpoint, ENVS)
    if agent.action_space.shape or agent.restrictions.is_used:
        raise ValueError(f"{folder}: its actions depend on the state or are no ids, which a record does not hold")
    env.seed(seed)
    episodes = _episodes(agent, env, rows, epsilon, np.random.default_rng(seed))
    table = pa.table({name: list(part) if part.ndim > 1 else part for name, part in episodes.items()})
    pq.write_table(table, out, row_group_size=ROWS_AT_ONCE)
    return out


def _episodes(
    agent: Wolpertinger, env: Any, rows: int, epsilon: float, rng: np.random.Generator
) -> dict[str, npt.NDArray[Any]]:
    """Columns of whole episodes, one after the other: all that began before there were enough rows, or short ones would
    be there more often than they are.
    """
    obs, open_rows = env.reset(), [[] for _ in range(env.num_envs)]  # type: ignore[var-annotated]
    finished: list[tuple[Any, ...]] = []
    episode, is_open = 0, np.ones(env.num_envs, np.bool_)
    while is_open.any():
        actions, chances = _act(agent, obs, epsilon, rng)
        next_obs, rewards, dones, infos = env.step(actions)
        for i in np.flatnonzero(is_open):
            own = open_rows[i]
            is_cut = bool(dones[i]) and bool(infos[i].get("TimeLimit.truncated", False))
            after = infos[i]["terminal_observation"] if dones[i] else next_obs[i]
            own.append((obs[i], actions[i], rewards[i], bool(dones[i]) and not is_cut, is_cut, after, chances[i]))
            if dones[i]:
                finished += [(*row, episode, step) for step, row in enumerate(own)]
                open_rows[i], episode = [], episode + 1
                is_open[i] = len(finished) < rows
        obs = next_obs
    names = ("observation", "action", "reward", "terminated", "truncated", "next_observation", "propensity")
    columns = zip(*finished, strict=True)
    return {name: np.asarray(column) for name, column in zip((*names, "episode", "time"), columns, strict=True)}


def _act(
    agent: Wolpertinger, obs: Any, epsilon: float, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Actions, and the chance of each."""
    best = agent.predict(obs)[0]
    actions = np.where(rng.random(len(best)) < epsilon, agent.actions.sample(rng, len(best)), best)
    return actions, epsilon / agent.actions.n + (1 - epsilon) * (actions == best)
