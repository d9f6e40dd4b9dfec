"""Part of benchmarks.speed: one training step and its parts, over the paper's three tables of steps per second."""

import statistics
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from benchmarks.measure import describe_index, say, spread, time_rounds
from benchmarks.speed import obvious
from benchmarks.speed.agents import (
    BATCH,
    Trainer,
    make_agent,
    make_env,
    make_table,
    matrix_product,
    networks_of,
    preset,
    teach,
    tune,
)
from benchmarks.speed.effort import Effort
from wolpertinger import Wolpertinger
from wolpertinger.index.tune import RECALLS

NOMINAL = 100e9  # operations a second, to foresee which cells are slow
SLOW = 20.0  # seconds a step, from which on one step has to do


STRUCTURED = ("structured", "obvious", "screened", "default")
STEP_TABLES: dict[str, dict[str, Any]] = {
    "recommender": {
        "task": "recommender",
        "ks": (1, 131, 656, 1_313, 13_138),
        "contenders": ("exact", "slow", "medium", "fast", "obvious", "screened", "default"),
    },
    "recommender-200": {
        "task": "recommender-200",
        "ks": (656,),
        "contenders": ("exact", "obvious", "screened", "default"),
    },
    "cart-pole": {
        "task": "cart-pole",
        "ks": (1, 5_000),
        "contenders": (*STRUCTURED, "exact", "slow", "medium", "fast"),
    },
    "puddle-world": {
        "task": "puddle-world",
        "ks": (1, 5_242),
        "contenders": (*STRUCTURED, "exact", "medium", "fast"),
    },
    "puddle-world-all": {
        "task": "puddle-world",
        "ks": (2**20,),
        "contenders": ("structured", "obvious", "default", "exact"),  # nothing is screened there
    },
}


def measure(name: str, effort: Effort) -> dict[str, Any]:
    """A table's rows, one for each k, each with a cell for each contender."""
    table = STEP_TABLES[name]
    env = make_env(table["task"])
    ours, *_ = table["contenders"]
    left_out = set(RECALLS) - set(effort.recalls)
    agents: dict[str, Wolpertinger] = {}
    for contender in (contender for contender in table["contenders"] if contender not in left_out):
        say(f"{name}: making {contender}")
        agents[contender] = make_contender(table["task"], env, contender, effort)
    rows = [measure_row(name, agents, k, effort) for k in table["ks"]]
    first = agents[ours]
    return {
        "task": table["task"],
        "n": first.actions.n,
        "dim": first.actions.dim,
        "features": networks_of(first).features,
        "batch": BATCH,
        "ours": ours,
        "rows": rows,
    }


def make_contender(task: str, env: gym.Env, contender: str, effort: Effort) -> Wolpertinger:
    """An agent by the contender's name; those that name no index have the environment's own set, looked up exactly."""
    settings = preset(task, "default" if contender == "default" else "paper")
    if contender == "screened":
        settings["rerank"] = "screened"
    has_table = contender in RECALLS or (contender == "exact" and not task.startswith("recommender"))
    actions = make_table(env, contender, effort.build_seconds) if has_table else None
    policy = obvious.ObviousPolicy if contender == "obvious" else "MlpPolicy"
    agent = make_agent(env, actions, policy=policy, **settings)
    return agent if contender == "default" else teach(agent, task, effort.trained_steps)


def measure_row(name: str, agents: Mapping[str, Wolpertinger], k: int, effort: Effort) -> dict[str, Any]:
    """All contenders at one k, in turn, and the machine's rate in the same rounds."""
    cells: dict[str, dict[str, Any]] = {}
    trainers: dict[str, Trainer] = {}
    round_seconds = 0.0
    for contender, agent in agents.items():
        cells[contender] = foresee(contender, agent, k)
        if "does_not_fit" in cells[contender] or cells[contender]["foreseen_seconds"] > effort.most_seconds:
            continue
        say(f"{name}, k = {k:,}: warming up {contender}")
        agent.k = k
        trainers[contender] = trainer = Trainer(agent)
        if cells[contender]["foreseen_seconds"] <= SLOW:
            tune(agent)
            step = trainer.warm_up(3, effort.round_seconds)
            round_seconds += step * trainer.steps
    rounds = max(2, min(effort.rounds, int(effort.row_seconds / max(round_seconds, 1e-9))))
    if any(cells[contender]["foreseen_seconds"] > SLOW for contender in trainers):
        rounds = 1
    say(f"{name}, k = {k:,}: {rounds} rounds")
    seconds = time_all(trainers, rounds, cells)
    per_second = 1 / statistics.median(seconds.pop("rate"))
    ours = seconds.get(next(iter(agents)), [])
    for contender, samples in seconds.items():
        cells[contender] |= report(trainers[contender], samples, ours)
        cells[contender]["bound_seconds"] = cells[contender]["flops"] / per_second
        say(f"{name}, k = {k:,}, {contender}: {1e3 * cells[contender]['seconds']['median']:.4g} ms a step")
    return {"k": k, "rounds": rounds, "flops_per_second": per_second, "cells": cells}


def time_all(trainers: Mapping[str, Trainer], rounds: int, cells: dict[str, dict[str, Any]]) -> dict[str, list[float]]:
    """Seconds of every contender and of the machine's "rate"; one that runs out of memory says so in its cell."""
    rate = matrix_product()
    rate()
    if rounds > 1:
        return time_rounds({"rate": rate, **trainers}, rounds)
    seconds: dict[str, list[float]] = {"rate": []}
    for contender, trainer in trainers.items():
        seconds["rate"] += time_rounds({"rate": rate}, 3)["rate"]
        try:
            seconds |= time_rounds({contender: trainer}, 1)
        except (MemoryError, RuntimeError) as error:
            cells[contender]["failed"] = str(error)
            say(f"{contender} failed: {error}")
    return seconds if seconds["rate"] else {"rate": time_rounds({"rate": rate}, 3)["rate"]}


def foresee(contender: str, agent: Wolpertinger, k: int) -> dict[str, Any]:
    """A cell before it is measured: its arithmetic, and whether it can be done."""
    networks = networks_of(agent)
    flops = networks.step(BATCH, k, getattr(agent._arguments["learner"], "gradient_at", "proto"))
    cell = {"networks": list(networks.critic), "flops": flops, "foreseen_seconds": flops / NOMINAL}
    if contender == "obvious" and (needed := obvious.estimate_bytes(networks, BATCH, k)) > obvious.MOST_BYTES:
        cell["does_not_fit"] = needed
    return cell


def report(trainer: Trainer, seconds: list[float], ours: list[float]) -> dict[str, Any]:
    """What was measured of one contender: a step, its parts, and its time over that of ours in the same round."""
    ratios = [own / our for own, our in zip(seconds, ours, strict=True)] if ours else []
    return {
        "index": describe_index(trainer.agent),
        "seconds": spread(trainer.kept(seconds)),
        "parts": trainer.median_parts(),
        "times_ours": statistics.median(trainer.kept(ratios)) if ratios else None,
        "steps_per_round": trainer.steps,
        "rounds_with_tuning": sum(trainer.was_tuned),
    }
