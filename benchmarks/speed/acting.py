"""Part of benchmarks.speed: how long `predict` takes, for one state and for batches of them."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3 import DDPG

from benchmarks.measure import say, spread, time_rounds
from benchmarks.speed.agents import make_agent, make_env, preset, teach
from benchmarks.speed.effort import Effort
from benchmarks.speed.floor import Cheap

KS = {"recommender": (1, 131, 656), "cart-pole": (1, 5_000)}
STATES = (1, 64, 256)


def measure(effort: Effort) -> dict[str, Any]:
    """Milliseconds a call by task, k and number of states: ours, ours screened, Stable-Baselines3's DDPG."""
    return {"rows": [row for task, ks in KS.items() for row in measure_task(task, ks, effort)]}


def measure_task(task: str, ks: tuple[int, ...], effort: Effort) -> list[dict[str, Any]]:
    env = make_env(task)
    agents = {
        rerank: teach(make_agent(env, rerank=rerank, **preset(task, "paper")), task, effort.trained_steps)
        for rerank in ("exact", "screened")
    }
    box = spaces.Box(-1, 1, (agents["exact"].actions.dim,))
    floor = DDPG("MlpPolicy", Cheap(env.observation_space, box), policy_kwargs={"net_arch": [400, 300]}, buffer_size=1)
    buffer = agents["exact"].replay_buffer
    rows = []
    for k in ks:
        for agent in agents.values():
            agent.k = k
        for states in STATES:
            obs = buffer.observations[:states, 0].copy()
            work = {name: caller(agent, obs, effort) for name, agent in {**agents, "DDPG": floor}.items()}
            seconds = time_rounds(work, effort.rounds)
            cells = {name: spread(samples) for name, samples in seconds.items()}
            rows.append({"task": task, "k": k, "states": states, "seconds": cells})
            told = ", ".join(f"{name} {1e3 * cell['median']:.3g} ms" for name, cell in cells.items())
            say(f"acting, {task}, k = {k:,}, {states} states: {told}")
    return rows


def caller(agent: Any, obs: np.ndarray, effort: Effort) -> Callable[[], int]:
    """Calls of `predict`, as many as take a round's time."""
    for _ in range(3):
        start = time.perf_counter()
        agent.predict(obs, deterministic=True)
        once = time.perf_counter() - start
    calls = max(1, min(200, round(effort.round_seconds / 4 / once)))

    def work() -> int:
        for _ in range(calls):
            agent.predict(obs, deterministic=True)
        return calls

    return work
