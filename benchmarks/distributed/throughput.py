"""Transitions per second of two workers beside one process, where a step of the environment takes 2 ms, or 20.

Waiting is a simulator or a user elsewhere; working takes a core of this machine. Rounds alternate in one process: the
same number of transitions each, with one update of 64 for every 16, after a part that is not timed.
"""

import argparse
import logging
import os
import time
from typing import Any

from benchmarks.measure import commit, say, spread, write_result
from wolpertinger import Wolpertinger
from wolpertinger.distributed.fragments import Fragment
from wolpertinger.distributed.learner import Learner
from wolpertinger.distributed.workers import Workers
from wolpertinger.runs import make_config
from wolpertinger.runs.build import make_agent, make_env

WORKERS = 2
KINDS = ("waiting", "working", "dawdling")
UPDATE_EVERY = 16  # transitions: the least that the agent chooses itself for a long run
SETTINGS = {"train_freq": UPDATE_EVERY, "gradient_steps": 1, "batch_size": 64, "learning_starts": 100}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transitions", type=int, default=1_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    import ray

    ray.init(
        "local", num_cpus=2 * (WORKERS + 1), include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False
    )
    result: dict[str, Any] = {"workers": WORKERS, "transitions_per_update": UPDATE_EVERY}
    result |= {"commit": commit(), "transitions_per_round": options.transitions}
    for kind in options.kinds:
        result[kind] = compare(ray, kind, options.rounds, options.transitions)
        say(f"{write_result('distributed.throughput', result)}")
    ray.shutdown()


class Aging(Learner):
    """A learner that remembers the age of the weights of every fragment, in updates."""

    def _begin_fragment(self, fragment: Fragment) -> None:
        super()._begin_fragment(fragment)
        self.workers.weights_ages.append(self.ages[-1])  # type: ignore[attr-defined]


def compare(ray: Any, kind: str, rounds: int, transitions: int) -> dict[str, Any]:
    """One process and the workers in turn."""
    env = {"env_id": f"benchmarks.distributed.stamped:{kind.capitalize()}-v0", "levels": 101}
    config = make_config("control", env=env, n_envs=1, steps=10**6, changes=SETTINGS)
    alone = make_agent(config, make_env(config))
    workers: Any = Workers(ray, config, WORKERS, spares=0)
    workers.weights_ages = []
    learner = make_agent(config, make_env(config), agent_class=Aging.with_workers(workers))
    rates: dict[str, list[float]] = {"one_process": [], "workers": []}
    for number in range(rounds + 1):  # the first round is the warm-up's
        for name, agent in (("one_process", alone), ("workers", learner)):
            agent.learn(transitions // 3, reset_num_timesteps=number == 0)  # beyond what waited from the last round
            began = time.perf_counter()
            agent.learn(transitions, reset_num_timesteps=False)
            rates[name].append(transitions / (time.perf_counter() - began))
        one, many = (own[-1] for own in rates.values())
        say(f"{kind}: {one:,.0f} and {many:,.0f} a second, load {os.getloadavg()[0]:.1f}")
    workers.close()
    ratios = [many / one for one, many in zip(rates["one_process"][1:], rates["workers"][1:], strict=True)]
    summary = {name: spread(own[1:]) for name, own in rates.items()}
    return {
        **summary,
        "ratio": spread(ratios),
        "weights_age": spread(workers.weights_ages),
        **counts(alone, learner),
    }


def counts(alone: Wolpertinger, learner: Wolpertinger) -> dict[str, float]:
    """Updates per transition of both."""
    warm_up = SETTINGS["learning_starts"]
    return {
        f"updates_per_transition_{name}": agent._n_updates / (agent.num_timesteps - warm_up)
        for name, agent in (("one_process", alone), ("workers", learner))
    }


if __name__ == "__main__":
    main()
