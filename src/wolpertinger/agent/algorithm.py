"""Algorithm 2: training with DDPG, on Stable-Baselines3's off-policy base class."""

import io
import pathlib
from collections.abc import Iterable
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import polyak_update, update_learning_rate
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from wolpertinger.actions import ActionSet, resolve_k
from wolpertinger.agent.exploration import Exploration, Explorer
from wolpertinger.agent.fit import fit_actions
from wolpertinger.agent.policy import Choice, CnnPolicy, Explanation, MultiInputPolicy, WolpertingerPolicy
from wolpertinger.envs.vector import GymnasiumVecEnv

LOSSES = {"mse": F.mse_loss, "huber": F.smooth_l1_loss}


class Wolpertinger(OffPolicyAlgorithm):
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": WolpertingerPolicy,
        "CnnPolicy": CnnPolicy,
        "MultiInputPolicy": MultiInputPolicy,
    }
    policy: WolpertingerPolicy

    def __init__(
        self,
        policy: str | type[WolpertingerPolicy],
        env: GymEnv | str | None,
        actions: ActionSet | None = None,
        *,
        k: int | float | None = None,
        exploration: Exploration | None = None,
        learning_rate: float | Schedule = 1e-3,
        actor_learning_rate: float | None = None,
        buffer_size: int = 1_000_000,
        learning_starts: int = 1_000,
        batch_size: int = 64,
        tau: float = 0.005,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 1,
        critic_loss: str = "mse",
        max_grad_norm: float | None = None,
        anchor: float = 0.0,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        device: torch.device | str = "auto",
        seed: int | None = None,
        _init_setup_model: bool = True,
    ) -> None:
        super().__init__(
            policy,
            env,
            learning_rate,
            buffer_size,
            learning_starts,
            batch_size,
            tau,
            gamma,
            train_freq,
            gradient_steps,
            replay_buffer_class=replay_buffer_class,
            replay_buffer_kwargs=replay_buffer_kwargs,
            optimize_memory_usage=optimize_memory_usage,
            n_steps=n_steps,
            policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            device=device,
            support_multi_env=True,
            seed=seed,
            sde_support=False,
        )
        self.actions = fit_actions(actions, self.env)
        self.exploration = exploration or Exploration()
        self.actor_learning_rate = actor_learning_rate
        self.critic_loss = critic_loss
        self.max_grad_norm = max_grad_norm
        self.anchor = anchor
        self._k = k
        if _init_setup_model:
            self._setup_model()

    @classmethod
    def _wrap_env(cls, env, verbose=0, monitor_wrapper=True):
        if isinstance(env, gym.vector.VectorEnv):
            env = VecMonitor(GymnasiumVecEnv(env))
        return OffPolicyAlgorithm._wrap_env(env, verbose, monitor_wrapper)

    def _setup_model(self) -> None:
        self.policy_kwargs = {**self.policy_kwargs, "actions": self.actions, "k": resolve_k(self._k, self.actions.n)}
        super()._setup_model()
        self.actor, self.actor_target = self.policy.actor, self.policy.actor_target
        self.critic, self.critic_target = self.policy.critic, self.policy.critic_target
        self.explorer = Explorer(self.exploration, self.action_space, self.actions.dim, self.seed)

    def train(self, gradient_steps: int, batch_size: int) -> None:
        self.policy.set_training_mode(True)
        self._update_learning_rate([self.actor.optimizer, self.critic.optimizer])
        if self.actor_learning_rate: update_learning_rate(self.actor.optimizer, self.actor_learning_rate)
        loss = LOSSES[self.critic_loss]
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            executed = self.policy.embed(batch.actions.reshape(batch_size, *self.action_space.shape))
            discount = self.gamma if batch.discounts is None else batch.discounts.flatten()

            with torch.no_grad():  # line 13: the target action comes from the full policy
                choice = self.policy.choose(batch.next_observations, self.actor_target(batch.next_observations), self.critic_target)
                target = batch.rewards.flatten() + (1 - batch.dones.flatten()) * discount * choice.value

            q = self.critic(batch.observations, executed)
            critic_loss = loss(q, target.expand_as(q)) * len(q)
            self._minimise(critic_loss, self.critic)

            proto = self.actor(batch.observations)
            actor_loss = -self.critic(batch.observations, proto)[0].mean()
            if self.anchor:
                ch = self.policy.choose(batch.observations, proto, self.critic)
                best = ch.vectors[torch.arange(batch_size), ch.best]
                pull = ((self.actor.scale.to_unit(proto) - self.actor.scale.to_unit(best))**2).sum(-1).mean()
                actor_loss = (0 if self.anchor >= 100 else actor_loss) + self.anchor * pull
            self._minimise(actor_loss, self.actor)
            polyak_update(self.critic.parameters(), self.critic_target.parameters(), self.tau)
            polyak_update(self.actor.parameters(), self.actor_target.parameters(), self.tau)
            self._n_updates += 1
        self.logger.record("train/critic_loss", critic_loss.item())
        self.logger.record("train/actor_loss", actor_loss.item())

    def _minimise(self, loss, network):
        network.optimizer.zero_grad()
        loss.backward()
        if self.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(network.parameters(), self.max_grad_norm)
        network.optimizer.step()

    def _sample_action(self, learning_starts, action_noise=None, n_envs=1):
        progress = 1 - self._current_progress_remaining
        offered = lambda places: self.env.env_method("guided_actions", indices=places)
        if self.num_timesteps < learning_starts:
            a = self.explorer.replace(self.explorer.random(n_envs), offered, epsilon=1.0)
            return a, a
        obs, _ = self.policy.obs_to_tensor(self._last_obs)
        with torch.no_grad():
            proto = self.actor(obs)
            unit = self.actor.scale.to_unit(proto)
            noisy = self.actor.scale.to_vectors(torch.as_tensor(self.explorer.perturb(unit.numpy(), progress)))
            choice = self.policy.choose(obs, noisy, self.critic)
        a = self.explorer.replace(choice.action.numpy(), offered, self.explorer.epsilon(progress))
        self.last_choice, self.last_unit = choice, unit
        return a, a
