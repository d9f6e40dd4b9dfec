"""Part of benchmarks.speed: re-ranking alone, as a share of the machine's rate of matrix products."""

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.measure import say, spread, time_rounds
from benchmarks.speed.agents import (
    BATCH,
    make_agent,
    make_env,
    matrix_product,
    networks_of,
    preset,
    teach,
)
from benchmarks.speed.effort import Effort
from benchmarks.speed.obvious import ObviousPolicy
from wolpertinger import States, Wolpertinger

K = 656
SETS = ("recommender", "recommender-200")


class Reranker:
    """Work for `time_rounds`: choices in 64 states; keeps the seconds that went into the re-ranking of each."""

    def __init__(self, agent: Wolpertinger, obs: Any, protos: Any) -> None:
        self.agent, self.obs, self.protos = agent, obs, protos
        self.seconds: list[float] = []

    def __call__(self) -> int:
        timer = self.agent.policy.timer
        before = timer.seconds["rerank"]
        _ = self.agent.policy.behaviour.rank(States(self.obs, self.protos), self.agent.critic).values
        self.seconds.append(timer.seconds["rerank"] - before)
        return 1


def measure(effort: Effort) -> dict[str, Any]:
    """20 and 200 dimensions, k = 656, 64 states: ours, the obvious way, and the screened one."""
    return {"k": K, "batch": BATCH, "rows": [measure_row(name, effort) for name in SETS]}


def measure_row(name: str, effort: Effort) -> dict[str, Any]:
    rerankers = make_rerankers(name, effort)
    rate = matrix_product()
    work: dict[str, Callable[[], int]] = {"rate": rate, **rerankers}
    time_rounds(work, 2)  # warm up
    for reranker in rerankers.values():
        reranker.seconds.clear()
    rates = time_rounds(work, 3 * effort.rounds)["rate"]
    exact = rerankers["exact"]
    flops = networks_of(exact.agent).rank(BATCH, K)
    cells = {}
    for label, reranker in rerankers.items():
        shares = [flops * rate / own for rate, own in zip(rates, reranker.seconds, strict=True)]
        ratios = [own / our for own, our in zip(reranker.seconds, exact.seconds, strict=True)]
        times = {"seconds": spread(reranker.seconds), "flops_per_second": flops / statistics.median(reranker.seconds)}
        cells[label] = {**times, "share": statistics.median(shares), "times_exact": statistics.median(ratios)}
        say(f"rerank, {name}, {label}: {cells[label]['share']:.1%} of the matrix-product rate")
    per_second = 1 / statistics.median(rates)
    return {"set": name, "dim": exact.agent.actions.dim, "flops": flops, "flops_per_second": per_second, "cells": cells}


def make_rerankers(name: str, effort: Effort) -> dict[str, Reranker]:
    """The same states, protos and critic for all."""
    settings: dict[str, dict[str, Any]] = {
        "exact": {},
        "obvious": {"policy": ObviousPolicy},
        "screened": {"rerank": "screened"},
    }
    agents = {}
    for label, setting in settings.items():
        agents[label] = teach(
            make_agent(make_env(name), k=K, **preset(name, "paper"), **setting), name, effort.trained_steps
        )
    obs = agents["exact"].replay_buffer.sample(BATCH).observations
    protos = agents["exact"].actor_target(obs)
    return {label: Reranker(agent, obs, protos) for label, agent in agents.items()}
