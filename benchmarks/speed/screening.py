"""Part of benchmarks.speed: how often screening picks what scoring every candidate picks, as critics learn.

Agents of both presets train on the recommender of 13,138 items. Now and then their choices in states of the replay
buffer are compared: those of the targets, as in training, screened against exact.
"""

from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.measure import say
from benchmarks.speed.effort import Effort
from wolpertinger import Wolpertinger
from wolpertinger.policy import screening
from wolpertinger.policy.scoring import score_exactly
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.config import make_config

K = 656
STATES, AT_ONCE = 4_096, 64
TRAIN_K = 131  # what the agents learn with: an update at 656 takes three times as long
POINTS = (0, 200, 600, 1_500)  # updates after which the choices are compared
SETS: dict[str, dict[str, Any]] = {
    "Complete Journey": {"data": "complete-journey", "dim": 20},
    "generated": {"data": "generated", "dim": 20},
}


def measure(effort: Effort) -> dict[str, Any]:
    """Rows by set, networks and updates so far."""
    points = POINTS if effort.most_seconds == float("inf") else POINTS[:2]
    rows = [row for name in SETS for preset in ("paper", "nearest") for row in follow(name, preset, points)]
    return {"settings": settings(), "train_k": TRAIN_K, "rows": rows}


def settings() -> dict[str, Any]:
    """Of screening, all that a choice may depend on."""
    names = ("FEWEST_EACH", "FEWEST_IN_ALL", "MAX_DIM", "FIRST", "LEAST_FIRST", "MARGIN", "SAMPLE", "HEADROOM")
    return {name.lower(): getattr(screening, name) for name in names}


def follow(name: str, preset: str, points: tuple[int, ...]) -> list[dict[str, Any]]:
    """Train one agent, and compare on the way."""
    config = make_config(
        "recommender", env={"items": 13_138, **SETS[name]}, preset=preset, k=TRAIN_K, changes={"rerank": "screened"}
    )
    agent = make_agent(config, make_env(config))
    comparison = Comparison(points, {"set": name, "networks": preset.replace("nearest", "default")})
    agent.learn(agent.learning_starts + config.n_envs * (max(points) + 2), callback=comparison)
    return comparison.rows


class Comparison(BaseCallback):
    """Compares when the wanted numbers of updates are reached, once the buffer is filled."""

    model: Wolpertinger

    def __init__(self, points: tuple[int, ...], labels: dict[str, Any]) -> None:
        super().__init__()
        self.points, self.labels = list(points), labels
        self.rows: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        is_filled = self.model.num_timesteps >= self.model.learning_starts
        if self.points and is_filled and self.model._n_updates >= self.points[0]:
            self.points.pop(0)
            row = {**self.labels, "updates": self.model._n_updates, "k": K, **compare(self.model, K)}
            self.rows.append(row)
            say(f"screening, {row}")
        return True


@torch.no_grad()
def compare(agent: Wolpertinger, k: int) -> dict[str, Any]:
    """The share of equal choices, and how much of the chosen actions' advantage over the mean candidate is lost."""
    policy, trained_k = agent.policy.behaviour, agent.k
    agent.k, screen = k, policy.scorer
    equal, lost, advantage = [], [], []
    for obs in torch.split(agent.replay_buffer.sample(STATES).next_observations, AT_ONCE):
        states, rankings = policy.propose(agent.actor_target, obs), []
        for policy.scorer in (score_exactly, screen):
            rankings.append(policy.rank(states, agent.critic_target))
        exact, screened = rankings
        equal.append((exact.actions == screened.actions).float())
        lost.append(exact.values[:, 0] - screened.values[:, 0])
        advantage.append(exact.values[:, 0] - exact.mean)
    agent.k, policy.scorer = trained_k, screen
    share = torch.cat(lost).sum() / torch.cat(advantage).sum()
    return {"states": STATES, "agreement": float(torch.cat(equal).mean()), "advantage_lost": float(share)}
