"""Part of benchmarks.speed: candidates that the critic finds in all of A, beside the paper's k nearest."""

import statistics
import time
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from benchmarks.measure import say, spread, time_rounds
from benchmarks.speed.agents import BATCH, Trainer, make_agent, make_env, preset
from benchmarks.speed.effort import Effort
from benchmarks.speed.floor import MILLION, OBSERVED, Cheap
from wolpertinger import ActionTable, BestByCritic, Exploration, Wolpertinger
from wolpertinger.policy.critic_search import CriticSearch
from wolpertinger.runs.presets import SEARCH
from wolpertinger.threads import count_threads, set_threads

K = 131  # 1 % of 13,138 items: what the paper's agent re-ranks, and the critic's search costs no more than
FOUND = 10  # candidates that the critic's search is asked for
STATES = 512
LEARNED_STEPS = 3_000


class Matching(Cheap):
    """The reward is the product of the state and the action's vector: something that towers can learn."""

    def __init__(self, observation_space: spaces.Space, actions: ActionTable) -> None:
        super().__init__(observation_space, actions.space)
        self._actions = actions

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(self._states[self._at % 1_024] @ self._actions.embed(action)) / self._actions.dim
        obs, _, *rest = super().step(action)
        return obs, reward, *rest


def measure(effort: Effort) -> dict[str, Any]:
    rows = [catalogue_row(effort)]
    if effort.most_seconds == float("inf"):
        rows.append(million_row(effort))
    return {"batch": BATCH, "rows": rows}


def catalogue_row(effort: Effort) -> dict[str, Any]:
    """A training step that considers all 13,138 items by the critic's search, over one of the paper's agent at 1 %."""
    env = make_env("recommender")
    agents = {
        "paper": make_agent(env, k=K, **preset("recommender", "paper")),
        "search": make_agent(env, k=FOUND, **towers()),
        "search, always fresh": make_agent(env, k=FOUND, **{**towers(), "candidates": BestByCritic(refresh_every=1)}),
    }
    trainers = {name: Trainer(agent) for name, agent in agents.items()}
    for name, trainer in trainers.items():
        say(f"search: warming up {name}")
        trainer.warm_up(40, effort.round_seconds)
    seconds = time_rounds(trainers, 2 * effort.rounds)
    cells = {
        name: {
            "seconds": spread(samples),
            "times_paper": statistics.median(a / b for a, b in zip(samples, seconds["paper"], strict=True)),
            "parts": trainers[name].median_parts(),
        }
        for name, samples in seconds.items()
    }
    sources = {name: agent.policy.behaviour.source for name, agent in agents.items()}
    every = {name: source.every for name, source in sources.items() if isinstance(source, CriticSearch)}
    return {"set": "13,138 items", "k": K, "found": FOUND, "refresh_every": every, "cells": cells}


def towers(**changes: Any) -> dict[str, Any]:
    """Our own towers for the recommender, with changes to the critic."""
    chosen = {name: SEARCH[name] for name in ("candidates", "policy_kwargs")}
    return {**chosen, "critic": {**SEARCH["critic"], **changes}, "exploration": Exploration(epsilon=0.1)}


def million_row(effort: Effort) -> dict[str, Any]:
    """A million vectors: recall and time of the search on one thread, and what the keys cost in training."""
    vectors = np.random.default_rng(1).standard_normal((MILLION, 20), np.float32)
    actions = ActionTable(vectors)
    say("search, a million vectors: learning")
    settings = towers(state_embedding=0, action_embedding=0)
    agent = make_agent(Matching(OBSERVED, actions), actions, k=FOUND, learning_rate=1e-3, **settings)
    agent.learn(LEARNED_STEPS, reset_num_timesteps=False)
    critic_search = agent.policy.behaviour.source
    assert isinstance(critic_search, CriticSearch)
    # From one refresh to the next, with all that it brings: keys, the index over them, its tuning whenever that comes.
    spent, start = critic_search.seconds, time.perf_counter()
    agent.learn(critic_search.every, reset_num_timesteps=False)
    refresh, training = critic_search.seconds - spent, time.perf_counter() - start
    return {
        "set": "a million vectors",
        "found": FOUND,
        "refresh_every": critic_search.every,
        "step_seconds": (training - refresh) / critic_search.every,
        "refresh_seconds": refresh,
        "refresh_share": refresh / training,
        "agreement": critic_search.agreement,
        **search(agent),
    }


@torch.no_grad()
def search(agent: Wolpertinger) -> dict[str, Any]:
    """The search for single states on one thread, and how often it finds what a scan of all values does."""
    critic_search = agent.policy.behaviour.source
    assert isinstance(critic_search, CriticSearch)
    obs = torch.randn(STATES, *OBSERVED.shape, generator=torch.Generator().manual_seed(3))
    query, keys = critic_search.snapshot.queries(obs), critic_search.keys().vectors
    exact = torch.cat([(part @ keys.t()).topk(FOUND, dim=1).indices for part in torch.split(query, 16)])
    critic_search.best(query, FOUND)  # tuned by now
    threads = count_threads()
    set_threads(1)
    try:
        samples = []
        for row in torch.split(query, 1):
            start = time.perf_counter()
            found = critic_search.best(row, FOUND)
            samples.append(time.perf_counter() - start)
    finally:
        set_threads(threads)
    found = critic_search.best(query, FOUND)
    best_found = (found == exact[:, :1]).any(dim=1).float().mean().item()
    shared = (found.unsqueeze(2) == exact.unsqueeze(1)).any(dim=2).float().mean().item()
    return {"search_seconds": spread(samples), "finds_the_best": best_found, "recall": shared}
