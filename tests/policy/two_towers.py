"""Small agents with a critic of two towers, and the values of all actions that their search is compared with."""

import numpy as np
import torch

from tests.agent.envs import TargetEnv, all_actions, scramble_all, small_agent
from wolpertinger import ActionTable

VECTORS = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)


def tower_agent(env=None, **kwargs):
    """Candidates by the critic, unless others are asked for."""
    env = TargetEnv(ActionTable(VECTORS), length=5) if env is None else env
    policy_kwargs = {"net_arch": [16, 16], **kwargs.pop("policy_kwargs", {})}
    policy = kwargs.pop("policy", "MlpPolicy")
    return small_agent(
        env, policy, policy_kwargs=policy_kwargs, **{"critic": "two-tower", "candidates": "critic", **kwargs}
    )


def updated(agent):
    """The critic has other weights now, as after an update."""
    for policy in (agent.policy.behaviour, agent.policy.predictor):
        policy.source.critic_updated()


def fresh(agent):
    """Other weights, and keys that know of them."""
    scramble_all(agent)
    updated(agent)
    for policy in (agent.policy.behaviour, agent.policy.predictor):
        policy.source.expire()
    return agent


def states(n=7, seed=1):
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def all_values(agent, obs, critic=None):
    """Values (batch, n) of all actions, those of a table by id, also of removed ones."""
    table = isinstance(agent.actions, ActionTable)
    vectors = torch.from_numpy(
        agent.actions.embed(np.arange(agent.actions.space.n) if table else all_actions(agent.actions))
    )
    return (critic or agent.critic)(obs, vectors.expand(len(obs), -1, -1)).amin(dim=0)
