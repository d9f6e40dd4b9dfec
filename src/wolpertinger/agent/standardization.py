"""States and values in standard units: those of what the warm-up has seen."""

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.common.vec_env import VecNormalize

from wolpertinger.agent.policies import WolpertingerPolicy

LEAST_TRANSITIONS = 10  # without which no training begins, however short a warm-up the user asks for
SAMPLES = 4_096  # states by which their scale is judged
RECENT = 10_000  # steps whose returns are looked at


def has_units(policy: WolpertingerPolicy, buffer: ReplayBuffer, gamma: float, env: VecNormalize | None) -> bool:
    """Whether enough has been seen to train by; networks get their units then, values only once returns differ."""
    if policy.critic.values.is_fitted:
        return True
    if buffer.size() * buffer.n_envs < min(LEAST_TRANSITIONS, buffer.buffer_size * buffer.n_envs):
        return False
    standardize(policy, buffer, gamma, env)
    return True


def standardize(policy: WolpertingerPolicy, buffer: ReplayBuffer, gamma: float, env: VecNormalize | None) -> None:
    """Let all networks read states, and the critics say values, in the units of what the buffer holds.

    Both are fixed from then on: values that were learned keep their meaning, and a resumed run its units.
    """
    # Numbers of a Box only: one-hot states have their scale, and an extractor that learns finds its own.
    is_plain = next(policy.critic.features_extractor.parameters(), None) is None
    if isinstance(policy.observation_space, spaces.Box) and is_plain and not policy.critic.states.is_fitted:
        _fit_states(policy, buffer.sample(SAMPLES, env=env).observations)
        _expire_keys(policy)
    count = min(buffer.size(), RECENT)
    if not buffer.rewards[np.arange(buffer.pos - count, buffer.pos) % buffer.buffer_size].any():
        return  # asked again at every training, so it must cost little
    returns = torch.as_tensor(discounted_returns(buffer, gamma, env)).flatten()
    if returns.std(correction=0) == 0:
        return
    _fit_values(policy, returns)


def fit_units(policy: WolpertingerPolicy, obs: PyTorchObs, returns: torch.Tensor) -> None:
    """The same by the states and returns of a log."""
    is_plain = next(policy.critic.features_extractor.parameters(), None) is None
    if isinstance(policy.observation_space, spaces.Box) and is_plain:
        _fit_states(policy, obs)
    _fit_values(policy, returns)


def _fit_values(policy: WolpertingerPolicy, returns: torch.Tensor) -> None:
    for critic in (policy.critic, policy.critic_target):
        critic.values.fit(returns)
    _expire_keys(policy)


@torch.no_grad()
def _fit_states(policy: WolpertingerPolicy, obs: PyTorchObs) -> None:
    for network in (policy.actor, policy.actor_target, policy.critic, policy.critic_target):
        network.states.fit(network.extract_features(obs, network.features_extractor))


def _expire_keys(policy: WolpertingerPolicy) -> None:
    """Keys are of other units now."""
    for own in (policy.behaviour, policy.predictor):
        own.source.critic_updated()
        own.source.expire()


def discounted_returns(buffer: ReplayBuffer, gamma: float, env: VecNormalize | None) -> npt.NDArray[np.float64]:
    """What followed each recent transition (steps, environments), to the end of its episode or of the buffer."""
    count = min(buffer.size(), RECENT)
    order = np.arange(buffer.pos - count, buffer.pos) % buffer.buffer_size  # oldest first
    returns = np.asarray(buffer._normalize_reward(buffer.rewards[order], env), np.float64)
    goes_on = gamma * (1.0 - buffer.dones[order])
    for step in range(count - 2, -1, -1):
        returns[step] += goes_on[step] * returns[step + 1]
    return returns
