"""A worker: steps environments of its own by a copy of the policy, and explores as the agent on one machine does."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from wolpertinger.agent import Wolpertinger
from wolpertinger.agent.diagnostics import Diagnostics
from wolpertinger.distributed.fragments import Fragment, Order
from wolpertinger.runs.build import make_agent, make_env
from wolpertinger.runs.config import RunConfig

Weights = dict[str, dict[str, npt.NDArray[Any]]]
"""Parameters of each network that acts, by its name."""


def read_weights(agent: Wolpertinger) -> Weights:
    """What a worker needs of an agent to act as it would."""
    names = ("actor", "critic") if agent.policy.behaviour.source.needs_actor else ("critic",)
    return {
        name: {key: tensor.numpy(force=True) for key, tensor in getattr(agent, name).state_dict().items()}
        for name in names
    }


class Worker:
    """One incarnation of a worker. Ray makes it an actor; it knows nothing of Ray.

    Environments and agent are made at the first fragment, so that an error of theirs is the learner's to raise.
    """

    def __init__(self, config: RunConfig, steps: int) -> None:
        torch.set_num_threads(1)
        self.config, self.steps = config, steps
        self._updates = 0
        self._agent: Wolpertinger | None = None

    def stand_by(self) -> None:
        """Answers once the process has started."""

    def collect(self, order: Order, weights: Weights) -> Fragment:
        """Take the next steps by these weights."""
        agent = self._agent = self._agent or self._begin(order)
        if order.updates > self._updates:
            self._load(agent, order.updates, weights)
        agent.num_timesteps, agent._total_timesteps = order.position, order.total
        agent.diagnostics = Diagnostics()
        first, unknown = agent._last_obs, agent.faults.unknown.copy()
        taken = [self._step(agent) for _ in range(self.steps)]
        actions, observations, rewards, dones, infos = zip(*taken, strict=True)
        return Fragment(
            order=order,
            first=np.asarray(first),
            unknown=unknown,
            actions=np.stack(actions),
            observations=np.stack(observations),
            rewards=np.stack(rewards),
            dones=np.stack(dones),
            infos={(row, place): info for row, own in enumerate(infos) for place, info in enumerate(own) if info},
            acting=agent.diagnostics.state_dict(),
        )

    def _begin(self, order: Order) -> Wolpertinger:
        # Each incarnation of each worker has episodes of its own, as has each session of a run.
        seeds = np.random.SeedSequence([self.config.seed, *order.serial, order.position])
        # Nothing is learned here: the buffer holds the last step.
        settings = {**self.config.agent, "buffer_size": self.config.n_envs}
        config = replace(self.config, seed=int(seeds.generate_state(1)[0]), agent=settings)
        agent = make_agent(config, make_env(config), "cpu")
        agent.policy.set_training_mode(False)
        assert agent.env is not None
        agent._last_obs = agent.env.reset()  # type: ignore[assignment]
        return agent

    def _load(self, agent: Wolpertinger, updates: int, weights: Weights) -> None:
        for name, arrays in weights.items():
            tensors = {key: torch.from_numpy(array.copy()) for key, array in arrays.items()}
            getattr(agent, name).load_state_dict(tensors)
        for _ in range(self._updates, updates):  # keys age as they do beside the learner
            agent.policy.behaviour.source.critic_updated()
        self._updates = updates

    def _step(self, agent: Wolpertinger) -> tuple[Any, ...]:
        """As `collect_rollouts` takes a step, with the same eye on what is not finite."""
        assert agent.env is not None
        actions, _ = agent._sample_action(agent.learning_starts, n_envs=agent.n_envs)
        observations, rewards, dones, infos = agent.env.step(actions)
        agent.num_timesteps += agent.n_envs
        agent._store_transition(agent.replay_buffer, actions, observations, rewards, dones, infos)
        return actions, observations, rewards, dones, infos
