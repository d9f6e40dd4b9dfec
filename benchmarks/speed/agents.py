"""The paper's three tasks at full size, the agents that are timed on them, and where the time of their steps goes."""

import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import wolpertinger  # noqa: F401 - registers the environments
from benchmarks.speed.flops import Networks
from wolpertinger import ActionTable, Exploration, Wolpertinger
from wolpertinger.runs.presets import PAPER, PLAIN, find_preset

BATCH, BUFFER, RANDOM_STEPS = 64, 50_000, 2_000
# So that queries stay where an index was tuned; the time of a step does not depend on it.
LEARNING_RATE = 1e-6
WIDEST = 0.5  # of protos, where 1 is the edge of the actions' box
PRODUCT = 2_048  # rows and columns of the matrices whose product is the machine's rate
NETWORKS = ("policy_kwargs", "critic", "candidates", "learner", "n_steps")
PARTS = ("lookup", "rerank", "gradient", "other")

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "recommender": {"id": "wolpertinger/Recommender-v0", "items": 13_138, "dim": 20},
    "recommender-200": {"id": "wolpertinger/Recommender-v0", "items": 13_138, "dim": 200},
    "cart-pole": {"id": "wolpertinger/CartPoleSwingUp-v0", "levels": 1_000_000},
    "puddle-world": {"id": "wolpertinger/PuddleWorld-v0", "plan": 20, "window": 11},
}


@cache
def make_env(task: str) -> gym.Env:
    """A task's environment, made once: its agents step it in turn."""
    return gym.make(**ENVIRONMENTS[task])


def preset(task: str, networks: str) -> dict[str, Any]:
    """Arguments of `Wolpertinger` for the networks of the "paper", or ours for its form ("default"); batch 64."""
    if networks == "paper":
        return {name: PAPER[name] for name in ("policy_kwargs", "critic", "candidates", "learner")}
    chosen = find_preset(task.removesuffix("-200"), "nearest").agent
    return {name: chosen[name] for name in NETWORKS if name in chosen}


def make_table(env: gym.Env, index: str | float, build_seconds: float) -> ActionTable:
    """The environment's actions as a table of vectors, whatever they are: "exact", or with a promised recall."""
    task: Any = env.unwrapped
    actions = task.actions
    vectors = np.concatenate([actions.embed(block) for block in actions.blocks(2**16)])
    return ActionTable(vectors) if index == "exact" else ActionTable(vectors, recall=index, build_seconds=build_seconds)


def make_agent(env: gym.Env, actions: Any = None, *, policy: Any = "MlpPolicy", **settings: Any) -> Wolpertinger:
    """An agent that has filled its buffer a little, and whose protos are as widely spread as the actions.

    One update follows each transition, whatever the class would choose for a run of this length.
    """
    agent = Wolpertinger(
        policy,
        env,
        actions,
        **{**PLAIN, "k": 1, "learning_rate": LEARNING_RATE, "exploration": Exploration(epsilon=0.01), **settings},
        batch_size=BATCH,
        buffer_size=BUFFER,
        learning_starts=RANDOM_STEPS,
        seed=0,
    )
    agent.learn(RANDOM_STEPS)
    spread_protos(agent)
    return agent


@cache
def trained_critic(task: str, steps: int) -> dict[str, torch.Tensor]:
    """The weights that some updates at k = 1 leave: what screening can leave out depends on them."""
    agent = make_agent(make_env(task), learning_rate=1e-3, **preset(task, "paper"))
    agent.learn(steps, reset_num_timesteps=False)
    return {name: weight.clone() for name, weight in agent.critic.state_dict().items()}


def teach(agent: Wolpertinger, task: str, steps: int) -> Wolpertinger:
    """Give an agent with the paper's networks a critic that has learned a little."""
    for critic in (agent.critic, agent.critic_target):
        critic.load_state_dict(trained_critic(task, steps))
    return agent


@torch.no_grad()
def spread_protos(agent: Wolpertinger) -> None:
    """Scale the actor's last layer: a new actor proposes the middle of the box in every state, a trained one not."""
    layer = [module for module in agent.actor.mu if isinstance(module, nn.Linear)][-1]
    unit = agent.actor.unit(agent.replay_buffer.sample(1_000).observations)
    wanted = min(WIDEST, float(agent.actor.scale.spread))
    layer.weight *= wanted / float(unit.clamp(-0.99, 0.99).atanh().square().mean().sqrt())
    agent.actor_target.load_state_dict(agent.actor.state_dict())


@torch.no_grad()
def protos(agent: Wolpertinger, count: int = 2_048) -> np.ndarray:
    """What the target actor asks the lookup for."""
    return agent.actor_target(agent.replay_buffer.sample(count).observations).numpy()


def tune(agent: Wolpertinger) -> None:
    """Tune the lookup for the agent's k on its own protos, before anything is timed."""
    if getattr(agent.actions, "recall", None) is not None and agent.k < agent.actions.n:
        agent.actions.tune(protos(agent), agent.k)  # type: ignore[attr-defined]  # only a table promises a recall


def count_tunings(agent: Any) -> int:
    actions = getattr(agent, "actions", None)
    return sum(health.tunings for health in getattr(actions, "health", []))


def networks_of(agent: Wolpertinger) -> Networks:
    """The sizes that the arithmetic follows from."""
    chosen = agent.policy_kwargs
    widths = tuple(chosen["net_arch"])
    return Networks(
        features=agent.actor.features_extractor.features_dim,
        dim=agent.actions.dim,
        actor=widths,
        critic=widths,
        interaction=getattr(chosen["critic"], "interaction", False),
        critics=chosen.get("n_critics", 1),
    )


def matrix_product() -> Callable[[], int]:
    """Work for `time_rounds`: the units are operations, so that a unit's time is 1 over the machine's rate."""
    left, right = torch.ones(PRODUCT, PRODUCT), torch.ones(PRODUCT, PRODUCT)
    out = torch.empty(PRODUCT, PRODUCT)

    def work() -> int:
        torch.mm(left, right, out=out)
        return 2 * PRODUCT**3

    return work


class Trainer:
    """Work for `time_rounds`: training steps of one agent; keeps the seconds of the parts of every round."""

    def __init__(self, agent: Any, steps: int = 1) -> None:
        self.agent, self.steps = agent, steps
        self.parts: list[dict[str, float]] = []
        self.was_tuned: list[bool] = []

    def __call__(self) -> int:
        clock, tunings = self._clock(), count_tunings(self.agent)
        start = time.perf_counter()
        self.agent.learn(self.steps, reset_num_timesteps=False)
        total = time.perf_counter() - start
        spent = {name: seconds - clock.get(name, 0.0) for name, seconds in self._clock().items()}
        parts = {"lookup": spent.get("lookup", 0.0) + spent.get("search", 0.0), "rerank": spent.get("rerank", 0.0)}
        parts["gradient"] = spent.get("update", 0.0)
        parts["other"] = total - sum(parts.values())
        self.parts.append({name: seconds / self.steps for name, seconds in parts.items()})
        self.was_tuned.append(count_tunings(self.agent) != tunings)
        return self.steps

    def _clock(self) -> dict[str, float]:
        timer = getattr(self.agent.policy, "timer", None)  # Stable-Baselines3's has none
        return dict(timer.seconds) if timer is not None else {}

    def warm_up(self, calls: int, seconds: float, most: int = 500) -> float:
        """Some calls of one step, then as many steps a call as fit these seconds; returns the seconds of a step."""
        self.steps = 1
        times = []
        for _ in range(calls):
            start = time.perf_counter()
            self()
            times.append(time.perf_counter() - start)
        self.steps = max(1, min(most, round(seconds / times[-1])))
        self.parts, self.was_tuned = [], []
        return times[-1]

    def median_parts(self) -> dict[str, float]:
        """Seconds a step in each part, without the rounds in which the lookup was tuned again."""
        kept = self.kept(self.parts)
        return {name: statistics.median(parts[name] for parts in kept) for name in PARTS}

    def kept(self, samples: list[Any]) -> list[Any]:
        """Samples of the rounds in which no lookup was tuned; all, if there are none such."""
        chosen = [sample for sample, tuned in zip(samples, self.was_tuned, strict=True) if not tuned]
        return chosen or samples
