"""The learner for logs: CQL's penalty and TD3+BC's pull against computations from scratch."""

import numpy as np
import pytest
import torch

from tests.agent.envs import scramble_all
from tests.learners.test_ddpg import make, transitions
from wolpertinger import Offline
from wolpertinger.learners.offline import OfflineLearner


def learner_of(agent, **settings):
    learner = Offline(**settings)(agent.policy.networks, agent.policy.behaviour, 0.005)
    assert isinstance(learner, OfflineLearner)
    return learner


def losses_of(agent, batch, **settings):
    """The critic's loss towards a target of 0, and the actor's."""
    learner = learner_of(agent, **settings)
    with torch.no_grad():
        best = learner._rank_next(batch)
    return learner._critic_loss(batch, torch.zeros(len(batch.rewards))), learner._actor_loss(batch, best)


@pytest.mark.parametrize("case", ["nearest", "twins", "digits"])
def test_the_penalty_is_the_gap_between_the_batchs_actions_and_the_executed_one(case):
    agent = make(case)
    batch = transitions(agent)
    plain, _ = losses_of(agent, batch, conservative=0.0)
    vectors, critic = agent.policy.behaviour.embed(batch.actions), agent.critic
    gaps = []
    for state in range(len(vectors)):
        obs = batch.obs[state].expand(len(vectors), -1)
        q = critic.values(critic(obs, vectors))  # (critics, batch)
        gaps.append(0.1 * (q / 0.1).logsumexp(dim=1) - q[:, state])
    expected = plain + 0.3 * torch.stack(gaps).mean(dim=0).sum()
    torch.testing.assert_close(losses_of(agent, batch, conservative=0.3, temperature=0.1)[0], expected)


def test_the_pull_is_towards_the_executed_action():
    agent = make()
    batch = transitions(agent)
    _, plain = losses_of(agent, batch, pull=0.0)
    vectors = agent.policy.behaviour.embed(batch.actions)
    size = agent.critic.values(agent.critic(batch.obs, vectors)[0]).abs().mean()
    expected = plain / size + 2.0 * agent.actor.distance(batch.obs, vectors)
    torch.testing.assert_close(losses_of(agent, batch, pull=2.0)[1], expected)


def test_values_of_actions_that_the_log_does_not_take_fall():
    agent = make()
    scramble_all(agent)
    batch = transitions(agent)
    vectors, critic = agent.policy.behaviour.embed(batch.actions), agent.critic

    def advantage():
        with torch.no_grad():
            return float((critic(batch.obs, vectors)[0] - critic.cross(batch.obs, vectors)[0].mean(dim=1)).mean())

    gains = {}
    for weight in (0.0, 5.0):
        agent = make()
        critic, learner = agent.critic, learner_of(agent, conservative=weight)
        before = advantage()
        for _ in range(20):
            learner.update(batch)
        gains[weight] = advantage() - before
    assert gains[5.0] > 2 * gains[0.0] + 0.01


@pytest.mark.parametrize("name", ["conservative", "temperature", "pull"])
@pytest.mark.parametrize("value", [-1, np.nan, "much"])
def test_settings_are_checked(name, value):
    with pytest.raises(ValueError, match=f"{name}="):
        Offline(**{name: value})
