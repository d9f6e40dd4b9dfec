"""TD3's three changes to DDPG, in the lookup's terms: twin critics (`n_critics=2`), an actor that learns every other
update, and noise on the proto-action of the target, before the lookup."""

from typing import Any

import torch

from wolpertinger import Wolpertinger
from wolpertinger.agent.options import LOSSES


class Smooth(Wolpertinger):
    """`smoothing`: sigma of the target's noise, clipped at 2.5 of it; `delay`: critic updates per actor update."""

    def __init__(self, *args: Any, smoothing: float = 0.2, delay: int = 2, **kwargs: Any) -> None:
        self.smoothing, self.delay = smoothing, delay
        super().__init__(*args, **kwargs)

    def _train_once(self, batch_size: int) -> None:
        batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
        obs, next_obs = batch.observations, batch.next_observations
        rewards, going_on = batch.rewards.squeeze(1), 1 - batch.dones.squeeze(1)
        discount = self.gamma if batch.discounts is None else batch.discounts.squeeze(1)
        executed = self.policy.embed(batch.actions.reshape(len(rewards), *(self.action_space.shape or ())))
        with torch.no_grad():
            unit = self.actor_target.unit(next_obs)
            noise = (torch.randn_like(unit) * self.smoothing).clamp(-2.5 * self.smoothing, 2.5 * self.smoothing)
            proto = self.actor_target.scale.to_vectors((unit + noise).clamp(-1, 1))
        choice = self.policy.choose(next_obs, proto, self.critic_target)
        target = rewards + going_on * discount * choice.value
        q = self.critic(obs, executed)
        critic_loss = len(q) * LOSSES[self.critic_loss](q, target.expand_as(q))
        self._minimise(critic_loss, self.critic)
        self.policy.tick()
        self._n_updates += 1
        if self._n_updates % self.delay == 0:
            self._train_actor(obs, next_obs, choice)
            self.follower.step(self.tau)
        self.diagnostics.add(critic_loss=critic_loss.detach())
