"""The runs whose traces are recorded, and how: `python -m tests.golden.cases` records them anew, on one thread.

A trace is the actions of the first 300 steps, the policy's predictions after them, and a checksum of all weights, one
thread. Recorded before the code was rearranged, at the commit that `checksums.json` names.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch

from tests.agent.envs import PLAIN, PLAIN_NETWORKS, TargetEnv
from wolpertinger import DDPG, MLP, ActionProduct, ActionTable, BestByCritic, Exploration, TwoTower, Wolpertinger
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.config import make_config

FOLDER = Path(__file__).parent
STEPS, N_ENVS, LEARNING_STARTS = 300, 4, 100
VECTORS = np.random.default_rng(5).uniform([-2, 0, 10], [2, 1, 30], size=(120, 3)).astype(np.float32)
MANY = np.random.default_rng(6).normal(size=(2_000, 4)).astype(np.float32)
WIDE = np.random.default_rng(7).normal(size=(2_000, 8)).astype(np.float32)
LEVELS = [np.linspace(-2, 2, 6), np.linspace(0, 1, 5), np.linspace(10, 30, 4)]
NETWORKS = {**PLAIN_NETWORKS, "net_arch": [32, 32]}
SMALL = {
    **PLAIN,
    "policy_kwargs": NETWORKS,
    "exploration": Exploration(),
    "buffer_size": 2_000,
    "learning_starts": LEARNING_STARTS,
    "batch_size": 16,
    "seed": 0,
}
RANDOM = Exploration(epsilon=0.2, final_epsilon=0.05)
TOWERS = {"critic": TwoTower(width=8, state_embedding=64, action_embedding=2.0)}
TWINS = {
    "learner": DDPG(critic_loss="huber", max_grad_norm=1.0, anchor=0.1, gradient_at="action"),
    "critic": MLP(interaction=True),
    "actor_learning_rate": 3e-4,
    "final_learning_rate": 1e-4,
    "policy_kwargs": {
        "net_arch": [32, 32],
        "n_critics": 2,
        "layer_norm": True,
        "state_arch": [16],
        "bound": "inverted gradients",
    },
}
SEVERAL = {
    "critic": "two-tower",
    "candidates": BestByCritic(refresh_every=7),
    "policy_kwargs": {"net_arch": [32, 32], "n_critics": 2, "predict_by": "target"},
}

SETS = {
    "table-exact": lambda: (ActionTable(VECTORS), {"k": 8}),
    "table-ivf": lambda: (ActionTable(VECTORS, index="IVF8,Flat"), {"k": 8}),
    "table-one-neighbour": lambda: (ActionTable(VECTORS), {"k": 1}),
    "table-all": lambda: (ActionTable(VECTORS), {"k": 120, "exploration": RANDOM}),
    "table-twins": lambda: (ActionTable(VECTORS), {"k": 9, **TWINS}),
    "table-screened": lambda: (ActionTable(WIDE), {"k": 300, "rerank": "screened"}),
    "table-two-tower-nearest": lambda: (ActionTable(VECTORS), {"k": 8, **TOWERS}),
    "table-two-tower-critic": lambda: (
        ActionTable(VECTORS),
        {"k": 1, "candidates": "critic", "exploration": RANDOM, **TOWERS},
    ),
    "table-two-tower-critic-several": lambda: (ActionTable(MANY), {"k": 5, "exploration": RANDOM, **SEVERAL}),
    "table-two-tower-both": lambda: (
        ActionTable(VECTORS),
        {"k": 4, "candidates": "both", "exploration": RANDOM, **TOWERS},
    ),
    "product-ids": lambda: (ActionProduct(LEVELS, space="discrete"), {"k": 8}),
    "product-digits": lambda: (ActionProduct(LEVELS, space="multidiscrete"), {"k": 8, "exploration": RANDOM}),
    "product-digits-all": lambda: (ActionProduct(LEVELS, space="multidiscrete"), {"k": 120, "exploration": RANDOM}),
    "product-huge": lambda: (ActionProduct([np.linspace(-1, 1, 21)] * 60), {"k": 3}),
}


def agent_over(name):
    """An agent over one of `SETS`."""
    actions, settings = SETS[name]()
    settings = {**SMALL, **settings, "policy_kwargs": {**NETWORKS, **settings.get("policy_kwargs", {})}}
    return Wolpertinger("MlpPolicy", TargetEnv(actions, length=5), **settings)


def trace(agent):
    """Actions (steps, envs, ...), predictions, and the checksum of all weights."""
    agent.learn(STEPS * agent.n_envs)
    digest = hashlib.sha256()
    for network in (agent.actor, agent.actor_target, agent.critic, agent.critic_target):
        for parameter in network.parameters():
            digest.update(parameter.detach().contiguous().numpy().tobytes())
    observations = agent.replay_buffer.observations[:64, 0]
    predicted = np.asarray(agent.predict(observations, deterministic=True)[0])
    actions = agent.replay_buffer.actions[:STEPS].astype(np.int64).reshape(STEPS, agent.n_envs, -1)
    return actions, predicted.reshape(len(observations), -1), digest.hexdigest()


PRESETS = [  # but for control's default, which is whatever the class chooses
    *(("recommender", preset) for preset in ("default", "few-items", "nearest", "paper")),
    *((task, preset) for task in ("cart-pole", "puddle-world") for preset in ("default", "paper")),
    ("control", "paper"),
]


def agent_of(task, preset):
    """The agent of a task's preset, in four environments."""
    changes = {"learning_starts": LEARNING_STARTS, "buffer_size": 10_000}
    config = make_config(task, preset=preset, n_envs=N_ENVS, steps=STEPS * N_ENVS, seed=3, changes=changes)
    return make_agent(config, make_env(config), "cpu")


def record():
    """Write the traces of all cases anew."""
    torch.set_num_threads(1)
    agents = {f"set.{name}": lambda name=name: agent_over(name) for name in SETS}
    agents |= {f"{task}.{preset}": lambda task=task, preset=preset: agent_of(task, preset) for task, preset in PRESETS}
    arrays, sums = {}, json.loads((FOLDER / "checksums.json").read_text())
    for key, make in agents.items():
        arrays[f"{key}.actions"], arrays[f"{key}.predicted"], sums[key] = trace(make())
    np.savez_compressed(FOLDER / "traces.npz", **arrays)
    (FOLDER / "checksums.json").write_text(json.dumps(sums, indent=1) + "\n")


if __name__ == "__main__":
    record()
