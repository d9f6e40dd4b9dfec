"""Fitted Q evaluation (Le et al., 2019): what a policy is worth by a model that learns its own values from a log."""

from typing import Any

import numpy as np
import torch

from wolpertinger.agent import Wolpertinger
from wolpertinger.agent.standardization import fit_units
from wolpertinger.data import LogError, Transitions
from wolpertinger.data.sampling import LogSampler, returns_of
from wolpertinger.networks import Critic, PolyakUpdate

BATCH, RATE, TAU = 512, 1e-3, 0.01
SCALED_BY, RETURNS = 2**12, 2**17  # rows that states and values are scaled by


def fit_q(agent: Wolpertinger, log: Transitions, gamma: float, updates: int, seed: int) -> Critic:
    """A fresh critic of the agent's form, after so many batches of the log."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        spaces = agent.observation_space, agent.action_space
        policy: Any = agent.policy_class(*spaces, lambda _: RATE, **agent.policy_kwargs).to(agent.device)
        sampler, polyak = LogSampler(log, seed), PolyakUpdate((policy.critic, policy.critic_target))
        returns = returns_of(log, gamma, RETURNS)
        if np.std(returns) == 0:
            raise LogError(f"every return of the log is {returns[0]:g}: there is nothing to evaluate by")
        fit_units(policy, agent._to_obs(sampler.sample(SCALED_BY).obs), torch.as_tensor(returns, device=agent.device))
        policy.set_training_mode(True)
        for update in range(updates):
            policy.critic.optimizer.param_groups[0]["lr"] = RATE * (1 - update / updates)
            _update(agent, policy.critic, policy.critic_target, sampler, gamma)
            polyak.step(TAU)
    return policy.critic_target


def _update(agent: Wolpertinger, critic: Critic, target: Critic, sampler: LogSampler, gamma: float) -> None:
    rows, log = sampler.sample(BATCH), sampler.log
    obs, next_obs = agent._to_obs(rows.obs), agent._to_obs(rows.next_obs)
    following = np.where(rows.terminated, rows.number, rows.number + 1)
    allowed = None if log.allowed is None else agent.restrictions.read(log.allowed_in(following), BATCH)
    predictor = agent.policy.predictor
    with torch.no_grad():
        picked = predictor.rank(
            predictor.propose(agent.policy.actor, next_obs, allowed), agent.policy.predicting_critic
        ).vectors[:, 0]
        goes_on = torch.as_tensor(gamma * ~rows.terminated, dtype=torch.float32, device=agent.device)
        goal = torch.as_tensor(rows.rewards, device=agent.device) + goes_on * target(next_obs, picked).mean(dim=0)
    vectors = agent.policy.behaviour.embed(torch.as_tensor(rows.actions, device=agent.device))
    values = critic.values(critic(obs, vectors))
    loss = torch.nn.functional.mse_loss(values, critic.values(goal).expand_as(values))
    critic.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    critic.optimizer.step()
