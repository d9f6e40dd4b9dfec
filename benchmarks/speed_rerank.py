"""Part of benchmarks.speed: re-ranking alone, as a share of the machine's rate of matrix products."""

import statistics
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import torch

from benchmarks import obvious
from benchmarks.measure import time_rounds
from benchmarks.speed_agents import (
    BATCH,
    ENVIRONMENTS,
    make_agent,
    matrix_product,
    networks_of,
    preset,
    protos,
)
from benchmarks.speed_step import Effort, say, spread
from wolpertinger import Wolpertinger

K = 656
SETS = ("recommender", "recommender-200")


def measure(effort: Effort) -> dict[str, Any]:
    """20 and 200 dimensions, k = 656, 64 states: `critic.rank`, the obvious way, and the screened one."""
    return {"k": K, "batch": BATCH, "rows": [measure_row(name, effort) for name in SETS]}


def measure_row(name: str, effort: Effort) -> dict[str, Any]:
    options = dict(ENVIRONMENTS[name])
    env = gym.make(options.pop("id"), **options)
    agent = make_agent(env, k=K, **preset(name, "paper"))
    work = contenders(agent)
    for warm_up in work.values():
        warm_up()
    seconds = time_rounds(work, max(3, 3 * effort.rounds))
    flops = networks_of(agent).rank(BATCH, K)
    cells = {}
    for label in (label for label in work if label != "rate"):
        shares = [flops * rate / own for rate, own in zip(seconds["rate"], seconds[label], strict=True)]
        ratios = [own / our for own, our in zip(seconds[label], seconds["exact"], strict=True)]
        times = {"seconds": spread(seconds[label]), "flops_per_second": flops / statistics.median(seconds[label])}
        cells[label] = {**times, "share": statistics.median(shares), "times_exact": statistics.median(ratios)}
        say(f"rerank, {name}, {label}: {cells[label]['share']:.1%} of the matrix-product rate")
    rate = 1 / statistics.median(seconds["rate"])
    return {"set": name, "dim": agent.actions.dim, "flops": flops, "flops_per_second": rate, "cells": cells}


def contenders(agent: Wolpertinger) -> dict[str, Callable[[], int]]:
    """The same states, candidates and weights for all."""
    obs = agent.replay_buffer.sample(BATCH).observations
    vectors = torch.as_tensor(agent.actions.embed(agent.actions.nearest(protos(agent, BATCH), K)))

    def exact() -> int:
        with torch.no_grad():
            agent.critic.rank(obs, vectors)
        return 1

    def obviously() -> int:
        obvious.rank(agent.critic, obs, vectors)
        return 1

    work = {"rate": matrix_product(), "exact": exact, "obvious": obviously}
    if find_spec("benchmarks.screening"):  # `contender(agent, obs, vectors)` screens the same candidates
        work["screened"] = import_module("benchmarks.screening").contender(agent, obs, vectors)
    return work
