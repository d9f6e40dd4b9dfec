"""Targets over candidates that the whole batch shares: the batch's own executed actions and some random ones.

Searching all of A for every next state of every batch is most of the time of an update on 50,000 actions. The executed
actions of the buffer are mostly what the policy believed in, so the best of A is often among them or close to one.
"""

from typing import Any

import torch

from wolpertinger import Wolpertinger
from wolpertinger.agent.options import LOSSES


class Shared(Wolpertinger):
    """`shared` random candidates beside `own` of the batch (None: all of them)."""

    def __init__(self, *args: Any, shared: int = 256, own: int | None = None, **kwargs: Any) -> None:
        self.shared, self.own = shared, own
        super().__init__(*args, **kwargs)

    def _train_once(self, batch_size: int) -> None:
        batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
        obs, next_obs = batch.observations, batch.next_observations
        rewards, going_on = batch.rewards.squeeze(1), 1 - batch.dones.squeeze(1)
        discount = self.gamma if batch.discounts is None else batch.discounts.squeeze(1)
        taken = batch.actions.reshape(len(rewards), *(self.action_space.shape or ()))
        executed = self.policy.embed(taken)
        with torch.no_grad():
            if self.shared >= self.actions.n:
                candidates = torch.from_numpy(self.actions.ids)
            else:
                candidates = torch.cat([taken[: self.own], torch.from_numpy(self.explorer.random(self.shared))])
            features = self.critic_target.features(next_obs)
            proto = self.policy.propose(self.actor_target, next_obs)
            choice = self.policy._best_of(candidates, features, proto, self.critic_target)
            target = rewards + going_on * discount * choice.value
        q = self.critic(obs, executed)
        critic_loss = len(q) * LOSSES[self.critic_loss](q, target.expand_as(q))
        self._minimise(critic_loss, self.critic)
        self.policy.tick()
        self.follower.step(self.tau)
        self._n_updates += 1
        self.diagnostics.add(critic_loss=critic_loss.detach())
